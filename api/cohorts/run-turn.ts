import * as planRepository from '../../db/repositories/cohorts/plans.ts'
import type { RunRequest } from '../../schemas/cohort.ts'
import { LONG_RESULT_BYTES } from '../inference/long-results.ts'
import type { Services } from '../services.ts'

const MAX_REST_MS = 5_000

interface RunOrder {
  accountId: string
  body: RunRequest
  /** The length of the body. */
  bytes: number
  signal: AbortSignal
}

/**
 * Waits for a turn of the account where a run has a long graph, which may be that of a stored plan, or takes results over,
 * which may have 64 MB; undefined for any other. The next turn begins after a pause as long as this one, so that an account
 * occupies the gateway's only thread half of the time at most. A transaction would hold a connection while it waits, so
 * the turn is taken before.
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
