import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import * as keyMeterRepository from '../../../db/repositories/platform/key-meters.ts'
import type { Database } from '../../../db/tables.ts'
import type { TokenCounts } from '../../../domain/chat/chat.ts'
import { ApiError, temporaryError } from '../../../domain/errors.ts'
import { mayCallModel } from '../../../domain/key-limits.ts'
import { creditsToMicro } from '../../../domain/money.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import type { KeyLimits } from '../../../schemas/api-key.ts'
import { emit } from '../../events.ts'

const MINUTE_MS = 60_000
/** How often gateways share what they have admitted. */
const SHARE_INTERVAL_MS = 500
/** A meter stays active this long after its last request. */
const METER_TTL_MS = 2 * MINUTE_MS

/** This gateway's row. */
interface Registration {
  readonly id: string
  /** How many times the row was created. */
  readonly registrations: number
}

/** A limited key's usage. Rate limits only look at the current minute. */
interface Meter {
  minute: number
  /** Usage in this minute that all gateways have shared. */
  requests: number
  tokens: number
  /** Usage that this gateway has admitted but not yet shared. */
  ownRequests: number
  ownTokens: number
  /** The month of the costs, as `year * 12 + month`. */
  month: number
  /** The costs booked this month as last read, and those booked since that read. */
  spentMicro: number
  pendingMicro: number
  /**
   * Costs of admitted requests that aren't booked yet: at this gateway, as last shared by it, and at the other
   * gateways.
   */
  heldMicro: number
  sharedMicro: number
  othersMicro: number
  usedAt: number
}

/** The cost of an admitted request. It counts against its key's budget until it is booked or released. */
export class BudgetHold {
  readonly #meter: Meter
  #micro: number

  constructor(meter: Meter, micro: number) {
    this.#meter = meter
    this.#micro = micro
    meter.heldMicro += micro
  }

  /** Call this once the cost is stored in a row. It still counts here until the next read includes it. */
  book(): void {
    this.#meter.pendingMicro += this.release()
  }

  /** Releases and returns the cost that isn't booked. */
  release(): number {
    const micro = this.#micro
    this.#micro = 0
    this.#meter.heldMicro -= micro
    return micro
  }
}

/**
 * Enforces the limits of keys, per clock minute. Each gateway counts the usage that all gateways have shared plus its
 * own unshared usage, which it shares twice a second. A single gateway never exceeds a limit; several together exceed
 * it only by requests within the same half second. A budget is compared with the booked costs plus the holds that every
 * gateway has for admitted requests, so the same half second applies.
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
      everyMs: SHARE_INTERVAL_MS,
      onError: (err) => emit(log, 'keys.settle_failed', { err }),
    }).start()
  }

  /** Loads the meters of keys before their first request. */
  async load(keyIds: readonly string[]): Promise<void> {
    if (keyIds.length === 0) return
    for (const id of keyIds) this.#of(id)
    await this.#read(keyIds)
  }

  /**
   * Counts a request to an endpoint's model; throws if the key may not call it now. If the request uses the key's
   * budget, returns its hold, which the caller books with the task's row or releases when the request ends.
   */
  admit(
    { keyId, limits }: { keyId: string; limits: KeyLimits },
    endpoint: { id: string; name: string; price_micro: number },
    now = Date.now(),
  ): BudgetHold | undefined {
    const { requests_per_minute, tokens_per_minute, budget_credits_per_month: budget } = limits
    if (!mayCallModel(limits, endpoint))
      throw new ApiError('forbidden', `this key may not call the model ${endpoint.name}`, {
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
      const remainingMicro = creditsToMicro(budget) - meter.spentMicro - meter.pendingMicro
      if (endpoint.price_micro > remainingMicro)
        throw exceeded('budget_credits_per_month', `${budget} credits a month`, nextMonth(now))
      // Failing requests release their holds, and a cost that another gateway has booked may still be counted in that
      // gateway's holds too.
      if (endpoint.price_micro > remainingMicro - meter.heldMicro - meter.othersMicro)
        throw budgetHeld(budget)
    }
    meter.ownRequests += 1
    return isCharged ? new BudgetHold(meter, endpoint.price_micro) : undefined
  }

  /** Counts a response's tokens against the calling key, if that key has limits. */
  spend(keyId: string | undefined, { in: read, out }: TokenCounts): void {
    if (keyId === undefined || !this.#meters.has(keyId)) return
    this.#of(keyId).ownTokens += read + out
  }

  /** Shares what this gateway has admitted, and reads the totals of all gateways. */
  async settle(): Promise<void> {
    const now = Date.now()
    this.#forgetLostHolds()
    const active = [...this.#meters.entries()].filter(
      ([, { usedAt, heldMicro, sharedMicro }]) => now - usedAt < METER_TTL_MS || heldMicro !== sharedMicro,
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

  /** If this gateway's row was lost, its holds in the database were lost too; the new row has none. */
  #forgetLostHolds(): void {
    const { registrations } = this.#gateway
    if (registrations === this.#registrations) return
    this.#registrations = registrations
    for (const meter of this.#meters.values()) meter.sharedMicro = 0
  }

  /** Publishes this gateway's holds to the other gateways. */
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
      // A new month may have started during the read, with nothing pending.
      meter.pendingMicro = Math.max(0, meter.pendingMicro - (pending.get(reading.key_id) ?? 0))
    }
  }

  /** Returns a key's meter for the minute of `now`. */
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

/** The UTC month as `year * 12 + month`. */
function monthOf(now: number): number {
  const date = new Date(now)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The seconds until the next UTC month. */
function nextMonth(now: number): number {
  const date = new Date(now)
  return Math.ceil((Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) - now) / 1_000)
}

const exceeded = (limit: keyof KeyLimits, words: string, seconds: number): ApiError =>
  temporaryError('rate_limited', `this key has used its ${words}; try again in ${seconds} s`, seconds, {
    details: { limit },
  })

const HELD_RETRY_AFTER_S = 1

const budgetHeld = (budget: number): ApiError =>
  temporaryError(
    'rate_limited',
    `requests in flight reserve the rest of this key's ${budget} credits a month; try again in ${HELD_RETRY_AFTER_S} s`,
    HELD_RETRY_AFTER_S,
    { details: { limit: 'budget_credits_per_month' } },
  )
