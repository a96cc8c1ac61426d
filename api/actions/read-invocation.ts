import { setTimeout as sleep } from 'node:timers/promises'
import * as invocationRepository from '../../db/repositories/actions/invocations.ts'
import { ApiError } from '../../domain/errors.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { Invocation } from '../../schemas/action.ts'
import type { AccountCaller } from '../http/caller.ts'
import type { Services } from '../services.ts'
import { maySeeInvocation } from './limits.ts'
import { isEnded, presentInvocation } from './present.ts'

interface InvocationId {
  accountId: string
  id: string
}

/** Reads an invocation of this account; throws a 404 when there is none. */
export async function readInvocation(
  services: Pick<Services, 'db' | 'objects'>,
  { accountId, id }: InvocationId,
): Promise<Invocation> {
  const row = await invocationRepository.findInvocation(services.db, { id, accountId })
  if (row) return presentInvocation(services, row)
  throw invocationNotFound()
}

/** Reads an invocation that the caller's key may see; throws a 404 when there is none. */
export async function findVisibleInvocation(
  services: Pick<Services, 'db' | 'objects'>,
  caller: AccountCaller,
  id: string,
): Promise<Invocation> {
  const row = isUuid(id)
    ? await invocationRepository.findInvocation(services.db, { id, accountId: caller.accountId })
    : undefined
  if (row && (await maySeeInvocation(services.db, caller, row))) return presentInvocation(services, row)
  throw invocationNotFound()
}

const invocationNotFound = (): ApiError => new ApiError('not_found', 'there is no invocation with this id')

const JOB_POLL_MS = 500

/** Waits until an invocation has ended, the time is up or the signal aborts, and returns it as it is then. */
export async function awaitInvocation(
  services: Pick<Services, 'db' | 'objects' | 'taskWaiters'>,
  id: InvocationId,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<Invocation> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const invocation = await readInvocation(services, id)
    const left = deadline - performance.now()
    if (isEnded(invocation) || left <= 0 || signal.aborted) return invocation
    if (invocation.task_id !== null) await services.taskWaiters.wait(invocation.task_id, left, signal)
    else await sleep(Math.min(left, JOB_POLL_MS), undefined, { signal }).catch(() => {})
  }
}
