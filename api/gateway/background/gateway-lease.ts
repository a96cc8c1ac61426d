import type { Kysely } from 'kysely'
import { endGatewayLease, takeGatewayLease } from '../../../db/repositories/platform/gateways.ts'
import type { Database } from '../../../db/tables.ts'
import { newId } from '../../../domain/ids.ts'
import type { Logger } from '../../../platform/log.ts'

const LEASE_S = 10
const RENEW_MS = 2_000

/** This process as the others see it: its address, and a lease on the rows it has open. */
export class GatewayLease implements AsyncDisposable {
  readonly id = newId()
  readonly baseUrl: string
  readonly #db: Kysely<Database>
  readonly #log: Logger
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(db: Kysely<Database>, baseUrl: string, log: Logger) {
    this.#db = db
    this.baseUrl = baseUrl
    this.#log = log
  }

  /** Takes the lease and keeps it until disposed. */
  async start(): Promise<void> {
    await this.#take()
    this.#schedule()
  }

  #take(): Promise<void> {
    return takeGatewayLease(this.#db, { id: this.id, baseUrl: this.baseUrl, leaseS: LEASE_S })
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      void this.#take()
        .catch((err: unknown) => this.#log.warn({ err }, 'the lease of this gateway was not renewed'))
        .finally(() => this.#schedule())
    }, RENEW_MS)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await endGatewayLease(this.#db, this.id).catch(() => {})
  }
}
