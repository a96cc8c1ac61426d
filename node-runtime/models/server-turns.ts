import { FairQueue, type Requester, type Ticket } from '../../domain/fair-queue.ts'

/** Requests from gateways. They have already passed a fair queue there, so all of them share one queue here. */
export const FROM_GATEWAYS: Requester = { accountId: 'gateways', keyId: '', accountWeight: 3 }

/**
 * Returns the requester for durable work, whose accounts share a quarter of a busy server. `turn` is the account's key.
 */
export const durableOf = (turn = ''): Requester => ({ accountId: 'durable', keyId: turn })

/** One request to a model server, from its arrival to its end. */
export interface ServerTurn extends Disposable {
  /** Joins the queue. `begin` is called when the server has room, possibly before this returns. */
  enter(): void
}

interface QueuedTurn {
  start: (ticket: Ticket<QueuedTurn>) => void
}

const COST = 1
const always = () => true

/** Enforces the concurrency of a model server and schedules the requests from gateways and tasks fairly. */
export class ServerTurns {
  #most: number
  readonly #queue = new FairQueue<QueuedTurn>()

  constructor(most: number) {
    this.#most = most
  }

  /** The number of queued requests from gateways. */
  get waitingFromGateways(): number {
    return this.#queue.waitingOf(FROM_GATEWAYS.accountId)
  }

  /** Changes the concurrency. Requests that the server already has stay there. */
  setMost(most: number): void {
    this.#most = most
    this.#serve()
  }

  /** Creates a turn, which occupies the server from `begin` until it is disposed of. */
  turn(requester: Requester, begin: () => void): ServerTurn {
    let ticket: Ticket<QueuedTurn> | undefined
    let isOver = false
    const waiting: QueuedTurn = {
      start: (given) => {
        ticket = given
        begin()
      },
    }
    return {
      enter: () => {
        this.#queue.push(waiting, requester)
        this.#serve()
      },
      [Symbol.dispose]: () => {
        if (isOver) return
        isOver = true
        if (!ticket) return this.#queue.remove(waiting)
        this.#queue.end(ticket)
        this.#serve()
      },
    }
  }

  /** Waits for a turn and holds it until the result is disposed of. Throws the signal's reason. */
  async take(requester: Requester, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const turn = this.turn(requester, resolve)
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    turn.enter()
    try {
      await promise
      return turn
    } catch (err) {
      turn[Symbol.dispose]()
      throw err
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  #serve(): void {
    while (this.#queue.running < this.#most) {
      const next = this.#queue.next(always, COST)
      if (!next) return
      next.request.start(next.ticket)
    }
  }
}
