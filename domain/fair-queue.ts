import { getOrThrow } from './at.ts'

/** The account and key of a request. */
export interface Requester {
  readonly accountId: string
  readonly keyId: string
  /** An account with twice the weight is charged half the cost; 1 by default. */
  readonly accountWeight?: number
  /** The same for a key, relative to the other keys of its account. */
  readonly keyWeight?: number
}

const SWEEP_ABOVE = 1_000

/** The counters of one account or one key. */
interface Flow {
  /** The cost of its requests so far, in units of the queue's virtual time. */
  served: number
  waiting: number
  running: number
}

interface KeyFlow<T> extends Flow {
  readonly requests: Set<T>
}

interface AccountFlow<T> extends Flow {
  readonly keys: Map<string, KeyFlow<T>>
  virtualTime: number
}

/** A request in the queue, or one that has left it and is running. */
export interface Ticket<T> {
  readonly account: AccountFlow<T>
  readonly key: KeyFlow<T>
  readonly requester: Requester
  /** The cost charged for it. */
  charged: number
}

/**
 * A queue that is fair by cost, first among accounts and then among the keys of an account. The next request belongs to
 * the account that has been served least so far. This is start-time fair queueing
 * (https://doi.org/10.1145/248156.248171) with the token counter of https://arxiv.org/abs/2401.00588. Requests of one
 * key keep their order. An account without waiting requests starts at the current virtual time, so it can't save up
 * turns.
 */
export class FairQueue<T> {
  readonly #accounts = new Map<string, AccountFlow<T>>()
  readonly #tickets = new Map<T, Ticket<T>>()
  #virtualTime = 0
  #running = 0

  /** The number of waiting requests. */
  get size(): number {
    return this.#tickets.size
  }

  /** The number of requests that have started but not ended. */
  get running(): number {
    return this.#running
  }

  /** True when no request is waiting or running. */
  get isIdle(): boolean {
    return this.#running === 0 && this.#tickets.size === 0
  }

  /** Returns the waiting requests, in order of arrival. */
  requests(): Iterable<T> {
    return this.#tickets.keys()
  }

  /** Returns the number of waiting requests of one account. */
  waitingOf(accountId: string): number {
    return this.#accounts.get(accountId)?.waiting ?? 0
  }

  /** Adds a request to the end of its key's queue. */
  push(request: T, requester: Requester): void {
    const ticket = this.#ticket(requester)
    ticket.account.waiting += 1
    ticket.key.waiting += 1
    ticket.key.requests.add(request)
    this.#tickets.set(request, ticket)
  }

  /** Removes a request that is no longer waiting. */
  remove(request: T): void {
    const ticket = this.#tickets.get(request)
    if (!ticket) return
    this.#leave(request, ticket)
    this.#forget(ticket)
  }

  /** Starts a request without queueing it. */
  start(requester: Requester, cost: number): Ticket<T> {
    const ticket = this.#ticket(requester)
    this.#begin(ticket, cost)
    return ticket
  }

  /** Starts and returns the next request that can run now; undefined when none can. */
  next(canRun: (request: T) => boolean, cost: number): { request: T; ticket: Ticket<T> } | undefined {
    for (const account of leastServedFirst(this.#accounts.values())) {
      for (const key of leastServedFirst(account.keys.values())) {
        for (const request of key.requests) {
          if (!canRun(request)) continue
          const ticket = getOrThrow(this.#tickets, request)
          this.#leave(request, ticket)
          this.#begin(ticket, cost)
          return { request, ticket }
        }
      }
    }
    return undefined
  }

  /** Ends a started request. `cost` is the actual cost, if known; it corrects what was charged. */
  end(ticket: Ticket<T>, cost = ticket.charged): void {
    charge(ticket, cost - ticket.charged)
    ticket.account.running -= 1
    ticket.key.running -= 1
    ticket.charged = cost
    this.#running -= 1
    this.#forget(ticket)
  }

  #ticket(requester: Requester): Ticket<T> {
    const { accountId, keyId } = requester
    let account = this.#accounts.get(accountId)
    if (!account) {
      if (this.#accounts.size >= SWEEP_ABOVE) this.#sweep()
      account = { served: 0, waiting: 0, running: 0, virtualTime: 0, keys: new Map() }
      this.#accounts.set(accountId, account)
    }
    let key = account.keys.get(keyId)
    if (!key) account.keys.set(keyId, (key = { served: 0, waiting: 0, running: 0, requests: new Set() }))
    catchUp(account, this.#virtualTime)
    catchUp(key, account.virtualTime)
    return { account, key, requester, charged: 0 }
  }

  #begin(ticket: Ticket<T>, cost: number): void {
    const { account, key } = ticket
    this.#virtualTime = Math.max(this.#virtualTime, account.served)
    account.virtualTime = Math.max(account.virtualTime, key.served)
    charge(ticket, cost)
    account.running += 1
    key.running += 1
    ticket.charged = cost
    this.#running += 1
  }

  #leave(request: T, { account, key }: Ticket<T>): void {
    this.#tickets.delete(request)
    key.requests.delete(request)
    account.waiting -= 1
    key.waiting -= 1
  }

  #sweep(): void {
    for (const [accountId, account] of this.#accounts) {
      if (isIdle(account) && account.served <= this.#virtualTime) this.#accounts.delete(accountId)
    }
  }

  /** Drops the counters of an account or key that is idle and owes nothing. */
  #forget({ account, key, requester: { accountId, keyId } }: Ticket<T>): void {
    if (this.isIdle) {
      this.#accounts.clear()
      this.#virtualTime = 0
      return
    }
    if (isIdle(key) && key.served <= account.virtualTime) account.keys.delete(keyId)
    if (isIdle(account) && account.served <= this.#virtualTime) this.#accounts.delete(accountId)
  }
}

const isIdle = ({ waiting, running }: Flow): boolean => waiting === 0 && running === 0

function charge<T>({ account, key, requester }: Ticket<T>, cost: number): void {
  account.served += cost / (requester.accountWeight ?? 1)
  key.served += cost / (requester.keyWeight ?? 1)
}

function catchUp(flow: Flow, virtualTime: number): void {
  if (flow.waiting === 0) flow.served = Math.max(flow.served, virtualTime)
}

/**
 * Yields the flows with waiting requests, least served first. The first one usually has a suitable request, so the
 * others are sorted lazily.
 */
function* leastServedFirst<F extends Flow>(flows: Iterable<F>): Generator<F> {
  const waiting: F[] = []
  let least: F | undefined
  for (const flow of flows) {
    if (flow.waiting === 0) continue
    waiting.push(flow)
    if (!least || flow.served < least.served) least = flow
  }
  if (!least) return
  yield least
  yield* waiting.filter((flow) => flow !== least).toSorted((a, b) => a.served - b.served)
}
