import type { ValidateFunction } from 'ajv/dist/2020.js'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { type CallableEndpointRow, findCallableEndpoint } from '../db/repositories/callable-endpoints.ts'
import type { Database } from '../db/tables.ts'
import { ApiError, type Issue } from '../domain/errors.ts'
import { compileUserSchema } from '../platform/user-schema.ts'
import type { CacheWatch } from './cache-watch.ts'
import { toIssues } from './http/issues.ts'

const MOST = 20_000
/** Compiled schemas; one takes milliseconds to compile. */
const MOST_COMPILED = 1_000

/** Endpoints as inference needs them. Forgotten as soon as any endpoint changes; not believed while changes cannot be seen. */
export class EndpointCache {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #known = new LRUCache<string, CallableEndpointRow>({ max: MOST })
  // An endpoint's schema never changes, so these outlive a change of the rest.
  readonly #compiled = new LRUCache<string, ValidateFunction>({ max: MOST_COMPILED })
  #epoch = 0

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>) {
    this.#db = db
    this.#watch = watch
    watch.on('endpoint', () => {
      this.#epoch += 1
      this.#known.clear()
    })
  }

  /** The endpoint with this id or name; at once when it is known. */
  find(idOrName: string): CallableEndpointRow | undefined | Promise<CallableEndpointRow | undefined> {
    const known = this.#known.get(idOrName)
    return known && this.#watch.isFresh() ? known : this.#look(idOrName)
  }

  /** Throws `validation_failed` for an input that breaks the endpoint's schema. */
  checkInput(endpoint: CallableEndpointRow, input: unknown): void {
    let validate = this.#compiled.get(endpoint.id)
    if (!validate) this.#compiled.set(endpoint.id, (validate = compileUserSchema(endpoint.input_schema)))
    if (validate(input)) return
    const issues = toIssues('body', validate.errors ?? []).map(
      ({ loc: [where, ...rest], msg, type }): Issue => ({
        loc: [where ?? 'body', 'input', ...rest],
        msg,
        type,
      }),
    )
    const first = issues[0]
    throw new ApiError(
      'validation_failed',
      first ? `${first.loc.join('.')}: ${first.msg}` : 'input is not valid',
      {
        details: { issues },
      },
    )
  }

  async #look(idOrName: string): Promise<CallableEndpointRow | undefined> {
    const epoch = this.#epoch
    const row = await findCallableEndpoint(this.#db, idOrName)
    // What was read before a change must not outlive it.
    if (row && epoch === this.#epoch) this.#known.set(idOrName, row)
    return row
  }
}
