import { setTimeout as sleep } from 'node:timers/promises'
import * as invocationRepository from '../../db/repositories/actions/invocations.ts'
import { ApiError } from '../../domain/errors.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { Invocation } from '../../schemas/action.ts'
import type { AccountCaller } from '../http/caller.ts'
import type { AnyRequest } from '../http/route.ts'
import { inTurnOfResult } from '../inference/long-results.ts'
import type { Services } from '../services.ts'
import { maySeeInvocation } from './limits.ts'
import { isEnded, presentInvocation } from './present.ts'

interface InvocationId {
  accountId: string
  id: string
}

/** The request that reads an invocation; an account gets long results one at a time. */
type Reader = Pick<AnyRequest, 'signal' | 'res' | 'surface'>
type Deps = Pick<Services, 'db' | 'objects' | 'longAnswers'>

/** Reads an invocation of this account; throws a 404 when there is none. */
export async function readInvocation(
  services: Deps,
  { accountId, id }: InvocationId,
  reader: Reader,
): Promise<Invocation> {
  const row = await findRow(services, { accountId, id }, reader)
  if (row) return presentInvocation(services, row)
  throw invocationNotFound()
}

/** Reads an invocation that the caller's key may see; throws a 404 when there is none. */
export async function findVisibleInvocation(
  services: Deps,
  caller: AccountCaller,
  id: string,
  reader: Reader,
): Promise<Invocation> {
  const { accountId } = caller
  const row = isUuid(id) ? await findRow(services, { accountId, id }, reader) : undefined
  if (row && (await maySeeInvocation(services.db, caller, row))) return presentInvocation(services, row)
  throw invocationNotFound()
}

async function findRow({ db, longAnswers }: Deps, of: InvocationId, { signal, res, surface }: Reader) {
  const bytes = await invocationRepository.resultBytes(db, of)
  const turn = { accountId: of.accountId, bytes, signal, res, surface }
  return inTurnOfResult(longAnswers, turn, () => invocationRepository.findInvocation(db, of))
}

const invocationNotFound = (): ApiError => new ApiError('not_found', 'there is no invocation with this id')

const JOB_POLL_INTERVAL_MS = 500

/** Waits until an invocation ends, the time is up or the signal aborts, then returns its current state. */
export async function awaitInvocation(
  services: Deps & Pick<Services, 'taskWaiters'>,
  id: InvocationId,
  { timeoutMs, reader }: { timeoutMs: number; reader: Reader },
): Promise<Invocation> {
  const { signal } = reader
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const invocation = await readInvocation(services, id, reader)
    const remainingMs = deadline - performance.now()
    if (isEnded(invocation) || remainingMs <= 0 || signal.aborted) return invocation
    if (invocation.task_id !== null) await services.taskWaiters.wait(invocation.task_id, remainingMs, signal)
    else await sleep(Math.min(remainingMs, JOB_POLL_INTERVAL_MS), undefined, { signal }).catch(() => {})
  }
}
