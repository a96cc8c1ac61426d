import { AsyncLocalStorage } from 'node:async_hooks'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'
import { temporaryError } from '../domain/errors.ts'
import { FairSemaphore } from '../platform/async/fair-semaphore.ts'

/** The longest wait for a connection from the account's share. */
const MAX_WAIT_MS = 10_000
const MAX_WAITING = 1_000
const RETRY_AFTER_S = 1

/** An account's request, and the number of connections that it currently holds. */
interface Request {
  readonly accountId: string
  held: number
}

const requests = new AsyncLocalStorage<Request>()

/** Runs an account's request: connections that it takes from a shared pool count toward the account's share. */
export const ofAccount = <T>(accountId: string, run: () => T): T => requests.run({ accountId, held: 0 }, run)

/**
 * Runs work that requests from several accounts share (a read that all of them wait for, a writer of all accounts'
 * rows) outside the account whose request happens to start it. Otherwise all of them would wait for that account's
 * share.
 */
export const outsideAccounts = <T>(run: () => T): T => requests.exit(run)

/**
 * Limits each account's concurrent requests to a share of a pool's connections. Further requests from the account wait,
 * so that the remaining connections stay free for other accounts.
 * @param share the maximum number of connections per account.
 */
export function sharedPool(pool: pg.Pool, share: number): PostgresPool {
  const turns = new FairSemaphore({ most: Infinity, mostPerKey: share, mostWaiting: MAX_WAITING })

  const waitForTurn = (accountId: string): Promise<Disposable> =>
    turns.take(accountId, AbortSignal.timeout(MAX_WAIT_MS)).catch(() => {
      throw temporaryError(
        'rate_limited',
        'too many requests from this account are waiting for the database; send fewer at once',
        RETRY_AFTER_S,
      )
    })

  async function connect(): Promise<PostgresPoolClient> {
    const request = requests.getStore()
    // A request that already holds a connection could deadlock with itself, so it skips the queue for the next one.
    if (!request || request.held > 0) return pool.connect() as Promise<PostgresPoolClient>
    const turn = turns.takeFree(request.accountId) ?? (await waitForTurn(request.accountId))
    try {
      request.held += 1
      const client = await pool.connect()
      const release = client.release.bind(client)
      // The pool sets `release` each time it hands out a connection, so we can replace it.
      client.release = (err) => {
        request.held -= 1
        turn[Symbol.dispose]()
        release(err)
      }
      return client as unknown as PostgresPoolClient
    } catch (err) {
      request.held -= 1
      turn[Symbol.dispose]()
      throw err
    }
  }
  return { connect, end: () => pool.end(), options: pool.options }
}
