import type { Transaction } from 'kysely'
import * as idempotencyRepository from '../../db/repositories/platform/idempotency.ts'
import type { IdempotencyId } from '../../db/repositories/platform/idempotency.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import { requestDigest } from '../http/canonical.ts'
import type { Services } from '../services.ts'

/** Thrown in a request's transaction when another request has claimed its key in the meantime. */
class KeyTakenError extends Error {
  override readonly name = 'KeyTakenError'
}

interface KeyedInvocation {
  accountId: string
  slug: string
  key: string
  body: unknown
  rawBody: Buffer
}

/**
 * The `Idempotency-Key` of an invocation. The key's row stores the invocation's id and commits together with its task
 * or job, so a repeat within 24 hours finds the work in any state.
 */
export class InvocationKey {
  readonly #db: Services['db']
  readonly #id: IdempotencyId
  readonly #digest: Buffer

  constructor(db: Services['db'], request: KeyedInvocation) {
    const { accountId, slug, key, body, rawBody } = request
    this.#db = db
    this.#id = { accountId, operation: `invokeAction/${slug}`, key: key.toLowerCase() }
    this.#digest = requestDigest(body, rawBody)
  }

  /** Returns the id of the invocation under this key, if any; throws a 409 if that request was a different one. */
  async find(): Promise<string | undefined> {
    const stored = await idempotencyRepository.findReply(this.#db, this.#id)
    if (!stored) return undefined
    if (stored.bodyDigest.equals(this.#digest)) return stored.reply.toString()
    throw new ApiError('idempotency_key_reused', 'this Idempotency-Key was used with a different request')
  }

  /** Stores an invocation under the key, in the transaction that creates its work. */
  async take(trx: Transaction<Database>, invocationId: string): Promise<void> {
    if (!(await idempotencyRepository.takeKey(trx, this.#id, this.#digest))) throw new KeyTakenError()
    const reply = { status: 200, reply: Buffer.from(invocationId) }
    await idempotencyRepository.storeReply(trx, this.#id, reply)
  }

  /**
   * Returns the id of the invocation under the key, and whether another request created it. Calls `create`, which does
   * the work and claims the key, only if there is no invocation yet.
   */
  async once(create: () => Promise<string>): Promise<{ id: string; isReplay: boolean }> {
    for (;;) {
      const known = await this.find()
      if (known !== undefined) return { id: known, isReplay: true }
      try {
        return { id: await create(), isReplay: false }
      } catch (err) {
        if (!(err instanceof KeyTakenError)) throw err
      }
    }
  }
}
