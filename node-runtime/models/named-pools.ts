import { Dispatcher } from 'undici'
import { memberBytes, spliceMembers } from '../../platform/json-bytes.ts'
import type { ServerPool } from './watched-pool.ts'

/** Begins the names of adapters in a server. No endpoint has such a name. */
export const ADAPTER_PREFIX = 'adapter:'
const PREFIX_BYTES = Buffer.from(ADAPTER_PREFIX)
const ESCAPE = Buffer.from('\\u')

/** Rewrites the bodies of requests on their way to a model server. */
class RewritingPool extends Dispatcher implements ServerPool {
  readonly #pool: ServerPool
  readonly #rewrite: (body: Buffer) => Buffer

  constructor(pool: ServerPool, rewrite: (body: Buffer) => Buffer) {
    super()
    this.#pool = pool
    this.#rewrite = rewrite
  }

  get needsProbe(): boolean {
    return this.#pool.needsProbe
  }

  get isSuspect(): boolean {
    return this.#pool.isSuspect
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const body = typeof options.body === 'string' ? Buffer.from(options.body) : options.body
    const rewritten = Buffer.isBuffer(body) ? this.#rewrite(body) : (body ?? null)
    return this.#pool.dispatch({ ...options, body: rewritten }, handler)
  }
}

/** Returns the pool of an adapter: every request gets the adapter's name as its `model`. */
export function adapterPool(pool: ServerPool, name: string): ServerPool {
  const model = JSON.stringify(name)
  return new RewritingPool(pool, (body) => spliceMembers(body, { model }))
}

/**
 * Returns the pool of a base with adapters: no caller can reach an adapter, which may be another account's, by naming it
 * as the `model` of a request for the base.
 */
export function basePool(pool: ServerPool, served: string): ServerPool {
  const model = JSON.stringify(served)
  return new RewritingPool(pool, (body) => (namesAdapter(body) ? spliceMembers(body, { model }) : body))
}

function namesAdapter(body: Buffer): boolean {
  // Few bodies have these bytes, and only those have to be scanned.
  if (!body.includes(PREFIX_BYTES) && !body.includes(ESCAPE)) return false
  const named = memberBytes(body, 'model')
  const name: unknown = named && JSON.parse(named.toString())
  return typeof name === 'string' && name.startsWith(ADAPTER_PREFIX)
}
