import type { Transaction } from 'kysely'
import { isMissingReference } from '../../db/errors.ts'
import * as idempotencyRepository from '../../db/repositories/platform/idempotency.ts'
import type { IdempotencyId, StoredReply } from '../../db/repositories/platform/idempotency.ts'
import { retryTransaction } from '../../db/retry-transaction.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError, invalid } from '../../domain/errors.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { Services } from '../services.ts'
import { requestDigest } from './canonical.ts'
import type { Outgoing } from './outgoing.ts'
import type { ReplyHeaders } from './reply.ts'
import type { RequestContext } from './request-context.ts'
import type { AnyRoute } from './route.ts'

/** A request with an `Idempotency-Key`, and the digest of its body. */
interface KeyedRequest {
  id: IdempotencyId
  digest: Buffer
}

type KeyedWork = (trx: Transaction<Database>) => Promise<Outgoing>

/**
 * Returns a request's key, if it has one. A key is scoped to the account, the operation and the path parameters; for an
 * operator's request, the account is the one in its path.
 */
export function keyOf(
  { operationId }: AnyRoute,
  { req, accountId: callerAccountId, params, query, body, rawBody }: RequestContext,
): KeyedRequest | undefined {
  const key = req.headers['idempotency-key']
  const accountId = callerAccountId ?? (params as { account_id?: string } | undefined)?.account_id
  if (key === undefined || accountId === undefined) return undefined
  if (typeof key !== 'string' || !isUuid(key)) {
    throw invalid(['header', 'idempotency-key'], 'must be a UUID', 'uuid')
  }
  const operation = [operationId, ...Object.values((params ?? {}) as Record<string, string>)].join('/')
  return {
    id: { accountId, operation, key: key.toLowerCase() },
    digest: requestDigest([body ?? null, query ?? null], rawBody, query ?? {}),
  }
}

/**
 * Ensures that all requests with one key have the same outcome. The key's row, the work and the reply commit together.
 * A concurrent request waits, first in this process (so waiters hold no connections), then on the unique row.
 */
export class Idempotency {
  readonly #services: Services
  readonly #atWork = new Map<string, Promise<unknown>>()

  constructor(services: Services) {
    this.#services = services
  }

  /**
   * Returns the stored reply, or else the result of `work`. Calls `admit`, which may throw, only before new work, so a
   * repeat of an earlier request is answered even while new work is rejected.
   */
  async run(keyed: KeyedRequest, admit: () => Promise<void>, work: KeyedWork): Promise<Outgoing> {
    const name = nameOf(keyed.id)
    for (;;) {
      const stored = await idempotencyRepository.findReply(this.#services.db, keyed.id)
      if (stored) return this.#open(keyed, stored)
      const other = this.#atWork.get(name)
      if (!other) break
      await other.catch(() => {})
    }
    // There is no await between the lookup above and the entry below, so only one request of this process gets here.
    const attempt = this.#admitted(keyed, admit, work)
    this.#atWork.set(name, attempt)
    try {
      return await attempt
    } finally {
      this.#atWork.delete(name)
    }
  }

  async #admitted(keyed: KeyedRequest, admit: () => Promise<void>, work: KeyedWork): Promise<Outgoing> {
    await admit()
    return this.#attempt(keyed, work)
  }

  async #attempt(keyed: KeyedRequest, work: KeyedWork): Promise<Outgoing> {
    const { db } = this.#services
    const { id } = keyed
    for (;;) {
      const outgoing = await retryTransaction(db, async (trx) => {
        if (!(await takeKey(trx, keyed))) return undefined
        const done = await work(trx)
        await this.#keep(trx, id, done)
        return done
      })
      if (outgoing) return outgoing

      const stored = await idempotencyRepository.findReply(db, id)
      if (stored) return this.#open(keyed, stored)
    }
  }

  /** Stores successful replies only, encrypted because they may contain a secret. */
  async #keep(
    trx: Transaction<Database>,
    id: IdempotencyId,
    { status, body, headers }: Outgoing,
  ): Promise<void> {
    if (status < 200 || status > 299) {
      await idempotencyRepository.releaseKey(trx, id)
      return
    }
    if (body !== undefined && typeof body !== 'string')
      throw new Error('an idempotent route must return JSON')
    const text = JSON.stringify({ body, headers })
    const reply = this.#services.secretBox.seal(text, nameOf(id))
    await idempotencyRepository.storeReply(trx, id, { status, reply })
  }

  #open({ id, digest }: KeyedRequest, { bodyDigest, status, reply }: StoredReply): Outgoing {
    if (!bodyDigest.equals(digest)) {
      throw new ApiError('idempotency_key_reused', 'this Idempotency-Key was used with a different request')
    }
    const kept = JSON.parse(this.#services.secretBox.open(reply, nameOf(id)).toString()) as {
      body?: string
      headers?: ReplyHeaders
    }
    return { status, body: kept.body, headers: { ...kept.headers, 'idempotency-replayed': 'true' } }
  }
}

/** Claims the key. The path of an operator's request may name an account that doesn't exist. */
async function takeKey(trx: Transaction<Database>, { id, digest }: KeyedRequest): Promise<boolean> {
  try {
    return await idempotencyRepository.takeKey(trx, id, digest)
  } catch (err) {
    if (!isMissingReference(err)) throw err
    throw new ApiError('not_found', 'there is no account with this id')
  }
}

const nameOf = ({ accountId, operation, key }: IdempotencyId): string => `${accountId}/${operation}/${key}`
