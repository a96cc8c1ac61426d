import * as planRepository from '../../db/repositories/cohorts/plans.ts'
import type { RunRequest } from '../../schemas/cohorts/cohort.ts'
import { LONG_RESULT_BYTES } from '../inference/long-results.ts'
import type { Services } from '../services.ts'

const MAX_REST_MS = 5_000

interface RunOrder {
  accountId: string
  body: RunRequest
  /** The length of the request body. */
  bytes: number
  signal: AbortSignal
}

/**
 * Waits for the account's turn if a run has a long graph (in its body or its stored plan) or reuses results, which can
 * be up to 64 MB; returns undefined for any other run. The account's next turn starts after a pause as long as this
 * turn, so an account occupies the gateway's only thread at most half of the time. Call this before the transaction,
 * which would hold a connection while it waits.
 */
export async function takeRunTurn(
  { db, longAnswers }: Pick<Services, 'db' | 'longAnswers'>,
  { accountId, body, bytes, signal }: RunOrder,
): Promise<Disposable | undefined> {
  const { plan_id: id, resume_of } = body
  const isLong =
    bytes > LONG_RESULT_BYTES ||
    resume_of !== undefined ||
    (id !== undefined && (await planRepository.readPlanBytes(db, { id, accountId })) > LONG_RESULT_BYTES)
  if (!isLong) return undefined
  const turn = await longAnswers.take(accountId, signal)
  const began = performance.now()
  return {
    [Symbol.dispose]() {
      turn.restForMs(Math.min(MAX_REST_MS, performance.now() - began))
      turn[Symbol.dispose]()
    },
  }
}
