import type { ValidateFunction } from 'ajv/dist/2020.js'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { type CallableEndpointRow, findCallableEndpoint } from '../db/repositories/callable-endpoints.ts'
import type { Database } from '../db/tables.ts'
import { ApiError, type Issue } from '../domain/errors.ts'
import { compileUserSchema } from '../platform/user-schema.ts'
import type { CacheWatch } from './cache-watch.ts'
import { toIssues } from './http/issues.ts'

/** Rows kept, by what they take: half a kilobyte and their schema, of which a wide table may have a megabyte. */
const MOST_BYTES = 16 * 1024 * 1024
const ROW_BYTES = 512
/** Compiled schemas: at least 16 to 60 KB each, five times their text (measured); one takes some 30 ms to compile. */
const MOST_COMPILED_BYTES = 32 * 1024 * 1024
const COMPILED_BYTES = 32 * 1024
const COMPILED_FACTOR = 6

/** Endpoints as inference needs them. Forgotten as soon as any endpoint changes; not believed while changes cannot be seen. */
export class EndpointCache {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #known = new LRUCache<string, CallableEndpointRow>({ maxSize: MOST_BYTES })
  // An endpoint's schema never changes, so these outlive a change of the rest.
  readonly #compiled = new LRUCache<string, ValidateFunction>({ maxSize: MOST_COMPILED_BYTES })
  #epoch = 0

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>) {
    this.#db = db
    this.#watch = watch
    watch.on('endpoint', () => {
      this.#epoch += 1
      this.#known.clear()
    })
  }

  /** Bytes that the rows and the compiled schemas are taken to hold. */
  get bytes(): { rows: number; compiled: number } {
    return { rows: this.#known.calculatedSize, compiled: this.#compiled.calculatedSize }
  }

  /** The endpoint with this id or name; at once when it is known. */
  find(idOrName: string): CallableEndpointRow | undefined | Promise<CallableEndpointRow | undefined> {
    const name = idOrName.toLowerCase()
    const known = this.#known.get(name)
    return known && this.#watch.isFresh() ? known : this.#look(name)
  }

  /** Throws `validation_failed` for an input that breaks the endpoint's schema. */
  checkInput(endpoint: CallableEndpointRow, input: unknown): void {
    let validate = this.#compiled.get(endpoint.id)
    if (!validate) {
      validate = compileUserSchema(endpoint.input_schema)
      const size = COMPILED_BYTES + COMPILED_FACTOR * textBytes(endpoint)
      this.#compiled.set(endpoint.id, validate, { size })
    }
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
    if (row && epoch === this.#epoch) this.#known.set(idOrName, row, { size: ROW_BYTES + textBytes(row) })
    return row
  }
}

const textBytes = ({ input_schema }: CallableEndpointRow): number => JSON.stringify(input_schema).length
