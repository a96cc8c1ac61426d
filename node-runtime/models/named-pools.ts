import { Dispatcher } from 'undici'
import { memberBytes, spliceMembers } from '../../platform/json-bytes.ts'
import type { ServerPool } from './watched-pool.ts'

/** Begins the names of adapters in a server. No endpoint has such a name. */
export const ADAPTER_PREFIX = 'adapter:'
const PREFIX_BYTES = Buffer.from(ADAPTER_PREFIX)
const ESCAPE = Buffer.from('\\u')

/** Rewrites the bodies of requests on their way to a model server. */
abstract class RewritingPool extends Dispatcher implements ServerPool {
  readonly #pool: ServerPool

  constructor(pool: ServerPool) {
    super()
    this.#pool = pool
  }

  get needsProbe(): boolean {
    return this.#pool.needsProbe
  }

  get isSuspect(): boolean {
    return this.#pool.isSuspect
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { body } = options
    const isJson = typeof body === 'string' || Buffer.isBuffer(body)
    return this.#pool.dispatch(
      { ...options, body: isJson ? this.rewrite(Buffer.from(body)) : (body ?? null) },
      handler,
    )
  }

  protected abstract rewrite(body: Buffer): Buffer
}

/** The pool of an adapter: every request gets the adapter's name as its `model`. */
export class AdapterPool extends RewritingPool {
  readonly #model: string

  constructor(pool: ServerPool, name: string) {
    super(pool)
    this.#model = JSON.stringify(name)
  }

  protected override rewrite(body: Buffer): Buffer {
    return spliceMembers(body, { model: this.#model })
  }
}

/**
 * The pool of a base with adapters: no caller can reach an adapter, which may be another account's, by naming it as the
 * `model` of a request for the base.
 */
export class BasePool extends RewritingPool {
  readonly #model: string

  constructor(pool: ServerPool, served: string) {
    super(pool)
    this.#model = JSON.stringify(served)
  }

  protected override rewrite(body: Buffer): Buffer {
    // Few bodies have these bytes, and only those have to be scanned.
    if (!body.includes(PREFIX_BYTES) && !body.includes(ESCAPE)) return body
    const named = memberBytes(body, 'model')
    const name: unknown = named && JSON.parse(named.toString())
    const isAdapter = typeof name === 'string' && name.startsWith(ADAPTER_PREFIX)
    return isAdapter ? spliceMembers(body, { model: this.#model }) : body
  }
}
