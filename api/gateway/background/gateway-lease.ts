import type { Kysely } from 'kysely'
import * as gatewayRepository from '../../../db/repositories/platform/gateways.ts'
import type { Database } from '../../../db/tables.ts'
import { newId } from '../../../domain/ids.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

const LEASE_TTL_S = 10
const RENEW_INTERVAL_MS = 2_000

/** Registers this process with the other gateways: its address, and a lease on its open rows. */
export class GatewayLease implements AsyncDisposable {
  readonly id = newId()
  readonly baseUrl: string
  readonly #db: Kysely<Database>
  readonly #loop: BackgroundLoop
  #registrations = 0

  constructor(db: Kysely<Database>, baseUrl: string, log: Logger) {
    this.#db = db
    this.baseUrl = baseUrl
    this.#loop = new BackgroundLoop(() => this.#take(), {
      everyMs: RENEW_INTERVAL_MS,
      onError: (err) => emit(log, 'gateway.lease_failed', { err }),
    })
  }

  /** Acquires the lease and renews it until disposed. */
  async start(): Promise<void> {
    await this.#take()
    this.#loop.start()
  }

  /**
   * How many times the row was created. If more than once, the rows that referred to an earlier one were lost with it.
   */
  get registrations(): number {
    return this.#registrations
  }

  async #take(): Promise<void> {
    const isNew = await gatewayRepository.takeGatewayLease(this.#db, {
      id: this.id,
      baseUrl: this.baseUrl,
      leaseS: LEASE_TTL_S,
    })
    if (isNew) this.#registrations += 1
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await gatewayRepository.endGatewayLease(this.#db, this.id).catch(() => {})
  }
}
