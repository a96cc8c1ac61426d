import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import * as keyMeterRepository from '../../../db/repositories/platform/key-meters.ts'
import type { Database } from '../../../db/tables.ts'
import type { TokenCounts } from '../../../domain/chat/chat.ts'
import { ApiError, temporaryError } from '../../../domain/errors.ts'
import { mayAsk } from '../../../domain/key-limits.ts'
import { creditsToMicro } from '../../../domain/money.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import type { KeyLimits } from '../../../schemas/api-key.ts'
import { emit } from '../../events.ts'

const MINUTE_MS = 60_000
/** How often gateways add up what they have admitted. */
const SETTLE_MS = 500
/** A meter is read for so long after its last request. */
const ACTIVE_MS = 2 * MINUTE_MS

/** The row of this gateway. */
interface Registration {
  readonly id: string
  /** How often its row was created. */
  readonly registrations: number
}

/** What a limited key has used. Only the current minute matters. */
interface Meter {
  minute: number
  /** What all gateways have added to the minute. */
  requests: number
  tokens: number
  /** What this gateway has admitted since. */
  ownRequests: number
  ownTokens: number
  /** The month of the costs, as `year * 12 + month`. */
  month: number
  /** The costs of the month that are booked, and those that were booked since they were read. */
  spentMicro: number
  pendingMicro: number
  /** The costs of admitted requests that are not booked yet: here, as other gateways read it, and at the others. */
  heldMicro: number
  sharedMicro: number
  othersMicro: number
  usedAt: number
}

/** The cost of an admitted request, which counts against the budget of its key until it is booked or given back. */
export class BudgetHold {
  readonly #meter: Meter
  #micro: number

  constructor(meter: Meter, micro: number) {
    this.#meter = meter
    this.#micro = micro
    meter.heldMicro += micro
  }

  /** The cost is in a row now; it counts here until the next reading has it. */
  book(): void {
    this.#meter.pendingMicro += this.release()
  }

  /** Gives back what is not booked; returns it. */
  release(): number {
    const micro = this.#micro
    this.#micro = 0
    this.#meter.heldMicro -= micro
    return micro
  }
}

/**
 * Holds keys to their limits. Minutes are those of the clock. Each gateway admits by what all have added up and what it
 * has admitted itself since, and adds that up twice a second: so each of several gateways admits at most a limit for
 * itself, and more than the limit in all only of what came within the same half second. A budget is compared with
 * what is booked and with what every gateway holds for requests that it has admitted. So one gateway never passes it, and
 * several pass it only by what they admit within the same half second.
 */
export class KeyMeters implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #meters = new LRUCache<string, Meter>({ max: 50_000 })
  readonly #loop: BackgroundLoop
  readonly #gateway: Registration
  #registrations: number

  constructor(db: Kysely<Database>, { gateway, log }: { gateway: Registration; log: Logger }) {
    this.#db = db
    this.#gateway = gateway
    this.#registrations = gateway.registrations
    this.#loop = new BackgroundLoop(() => this.settle(), {
      everyMs: SETTLE_MS,
      onError: (err) => emit(log, 'keys.settle_failed', { err }),
    }).start()
  }

  /** Reads the meters of keys before their first request. */
  async load(keyIds: readonly string[]): Promise<void> {
    if (keyIds.length === 0) return
    for (const id of keyIds) this.#of(id)
    await this.#read(keyIds)
  }

  /**
   * Counts a request to an endpoint's model; throws when the key may not ask it now. Returns the hold of a request that
   * costs a key some of its budget: to be booked with the row of its task, or released at its end.
   */
  admit(
    { keyId, limits }: { keyId: string; limits: KeyLimits },
    endpoint: { id: string; name: string; price_micro: number },
    now = Date.now(),
  ): BudgetHold | undefined {
    const { requests_per_minute, tokens_per_minute, budget_credits_per_month: budget } = limits
    if (!mayAsk(limits, endpoint))
      throw new ApiError('forbidden', `this key may not ask the model ${endpoint.name}`, {
        details: { limit: 'models' },
      })
    const meter = this.#of(keyId, now)
    meter.usedAt = now
    if (requests_per_minute !== undefined && meter.requests + meter.ownRequests >= requests_per_minute)
      throw exceeded('requests_per_minute', `${requests_per_minute} requests a minute`, nextMinute(now))
    if (tokens_per_minute !== undefined && meter.tokens + meter.ownTokens >= tokens_per_minute)
      throw exceeded('tokens_per_minute', `${tokens_per_minute} tokens a minute`, nextMinute(now))
    const isCharged = budget !== undefined && endpoint.price_micro > 0
    if (isCharged) {
      const left = creditsToMicro(budget) - meter.spentMicro - meter.pendingMicro
      if (endpoint.price_micro > left)
        throw exceeded('budget_credits_per_month', `${budget} credits a month`, nextMonth(now))
      // A request that fails gives its part back, and what another gateway has booked may still be among its holds.
      if (endpoint.price_micro > left - meter.heldMicro - meter.othersMicro) throw budgetHeld(budget)
    }
    meter.ownRequests += 1
    return isCharged ? new BudgetHold(meter, endpoint.price_micro) : undefined
  }

  /** Counts the tokens of an answer to the key that asked, if that is limited. */
  spend(keyId: string | undefined, { in: read, out }: TokenCounts): void {
    if (keyId === undefined || !this.#meters.has(keyId)) return
    this.#of(keyId).ownTokens += read + out
  }

  /** Adds up what this gateway has admitted, and reads what all have. */
  async settle(): Promise<void> {
    const now = Date.now()
    this.#forgetLostHolds()
    const active = [...this.#meters.entries()].filter(
      ([, { usedAt, heldMicro, sharedMicro }]) => now - usedAt < ACTIVE_MS || heldMicro !== sharedMicro,
    )
    if (active.length === 0) return
    const minute = minuteOf(now)
    const uses = active.flatMap(([keyId]) => {
      const { ownRequests: requests, ownTokens: tokens } = this.#of(keyId, now)
      return requests > 0 || tokens > 0 ? [{ keyId, requests, tokens }] : []
    })
    await keyMeterRepository.addUses(this.#db, uses, new Date(minute))
    for (const { keyId, requests, tokens } of uses) {
      const meter = this.#meters.get(keyId)
      if (meter?.minute !== minute) continue
      meter.ownRequests -= requests
      meter.ownTokens -= tokens
      meter.requests += requests
      meter.tokens += tokens
    }
    await this.#share(active)
    await this.#read(active.map(([keyId]) => keyId))
  }

  /** The holds that this gateway has written are lost with its row; a new row has none. */
  #forgetLostHolds(): void {
    const { registrations } = this.#gateway
    if (registrations === this.#registrations) return
    this.#registrations = registrations
    for (const meter of this.#meters.values()) meter.sharedMicro = 0
  }

  /** Writes for the other gateways what this one holds. */
  async #share(active: readonly [string, Meter][]): Promise<void> {
    const changed = active.filter(([, { heldMicro, sharedMicro }]) => heldMicro !== sharedMicro)
    if (changed.length === 0) return
    const holds = changed.map(([keyId, { heldMicro }]) => ({ keyId, heldMicro }))
    await keyMeterRepository.writeHolds(this.#db, this.#gateway.id, holds)
    for (const [i, [, meter]] of changed.entries()) meter.sharedMicro = holds[i]?.heldMicro ?? 0
  }

  async #read(keyIds: readonly string[]): Promise<void> {
    const minute = minuteOf(Date.now())
    const pending = new Map(keyIds.map((id) => [id, this.#of(id).pendingMicro]))
    const at = { minute: new Date(minute), gatewayId: this.#gateway.id }
    for (const reading of await keyMeterRepository.readMeters(this.#db, keyIds, at)) {
      const meter = this.#of(reading.key_id)
      if (meter.minute === minute) {
        meter.requests = Math.max(meter.requests, reading.requests)
        meter.tokens = Math.max(meter.tokens, reading.tokens)
      }
      if (meter.month !== monthOf(minute)) continue
      meter.spentMicro = reading.spent_micro
      meter.othersMicro = reading.others_micro
      // A month may have begun during the reading, with nothing pending.
      meter.pendingMicro = Math.max(0, meter.pendingMicro - (pending.get(reading.key_id) ?? 0))
    }
  }

  /** Returns the meter of a key in the minute of this time. */
  #of(keyId: string, now = Date.now()): Meter {
    const minute = minuteOf(now)
    let meter = this.#meters.get(keyId)
    if (!meter) {
      const used = { requests: 0, tokens: 0, ownRequests: 0, ownTokens: 0 }
      const costs = { spentMicro: 0, pendingMicro: 0, heldMicro: 0, sharedMicro: 0, othersMicro: 0 }
      meter = { minute, month: monthOf(now), ...used, ...costs, usedAt: now }
      this.#meters.set(keyId, meter)
    } else if (meter.minute !== minute) {
      Object.assign(meter, { minute, requests: 0, tokens: 0, ownRequests: 0, ownTokens: 0 })
      const month = monthOf(now)
      if (meter.month !== month) Object.assign(meter, { month, spentMicro: 0, pendingMicro: 0 })
    }
    return meter
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await this.settle().catch(() => {})
  }
}

const minuteOf = (now: number): number => now - (now % MINUTE_MS)
const nextMinute = (now: number): number => Math.max(1, Math.ceil((minuteOf(now) + MINUTE_MS - now) / 1_000))

/** The month of UTC. */
function monthOf(now: number): number {
  const date = new Date(now)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The seconds until the next month of UTC. */
function nextMonth(now: number): number {
  const date = new Date(now)
  return Math.ceil((Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) - now) / 1_000)
}

const exceeded = (limit: keyof KeyLimits, words: string, seconds: number): ApiError =>
  temporaryError('rate_limited', `this key has used its ${words}; try again in ${seconds} s`, seconds, {
    details: { limit },
  })

const HELD_RETRY_S = 1

const budgetHeld = (budget: number): ApiError =>
  temporaryError(
    'rate_limited',
    `requests in flight hold the rest of this key's ${budget} credits a month; try again in ${HELD_RETRY_S} s`,
    HELD_RETRY_S,
    { details: { limit: 'budget_credits_per_month' } },
  )
