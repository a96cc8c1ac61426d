import type { Transaction } from 'kysely'
import { isPermanent } from '../../db/errors.ts'
import * as taskRepository from '../../db/repositories/tasks/tasks.ts'
import * as taskWriteRepository from '../../db/repositories/tasks/writes.ts'
import type { Database } from '../../db/tables.ts'
import { at } from '../../domain/at.ts'
import { type ApiError, temporaryError } from '../../domain/errors.ts'
import { FairSemaphore } from '../../platform/async/fair-semaphore.ts'
import { coldInferenceStart } from '../../workflows/contract/starts.ts'
import { passKillSwitchIn } from '../http/kill-switch-gate.ts'
import type { Services } from '../services.ts'
import { queuedEntry, type TaskDraft } from './rows.ts'

/** The services needed to write a task. */
type Deps = Pick<Services, 'db' | 'outbox' | 'memory'>
type Reserve = (trx: Transaction<Database>) => Promise<void>

const RETRY_AFTER_S = 10
const MAX_WAITING = 10_000
const MAX_GROUP = 64
const MAX_GROUP_BYTES = 8 * 1024 * 1024
const MAX_WAIT_MS = 30_000

/**
 * A gateway writes an account's tasks in one transaction at a time, so only one connection waits for the account's
 * quota lock.
 */
const turns = new FairSemaphore({ most: Number.POSITIVE_INFINITY, mostPerKey: 1, mostWaiting: MAX_WAITING })

interface QueuedDraft {
  readonly draft: TaskDraft
  readonly since: number
  readonly written: () => void
  readonly failed: (err: unknown) => void
}

/** The tasks that are waiting for their account's turn, by account, per database of this process. */
const gathered = new WeakMap<Deps['db'], Map<string, QueuedDraft[]>>()

/**
 * Writes a task, its hold and its workflow start in one transaction, together with tasks that gathered while waiting. A
 * task with `reserve`, which runs first, gets its own transaction. Throws `task_quota_exceeded` if too many of the
 * account's tasks are waiting, and `operator_kill_switch` if the switch was activated in the meantime.
 */
export async function queueTask(deps: Deps, draft: TaskDraft, reserve?: Reserve): Promise<void> {
  await (reserve ? writeAlone(deps, draft, reserve) : writeGathered(deps, draft))
  draft.budgetHold?.book()
  deps.outbox.poke()
}

async function writeAlone(deps: Deps, draft: TaskDraft, reserve: Reserve): Promise<void> {
  using _turn = await takeTurn(draft.accountId)
  await deps.db.transaction().execute(async (trx) => {
    await reserve(trx)
    const [refusal] = await insertQueued(deps, trx, [draft])
    if (refusal) throw refusal
  })
}

function writeGathered(deps: Deps, draft: TaskDraft): Promise<void> {
  const { accountId } = draft
  const ofAccounts = gathered.get(deps.db) ?? new Map<string, QueuedDraft[]>()
  gathered.set(deps.db, ofAccounts)
  return new Promise((written, failed) => {
    const one = { draft, since: performance.now(), written, failed }
    const waiting = ofAccounts.get(accountId)
    if (waiting && waiting.length >= MAX_WAITING) return failed(tooManyWait())
    if (waiting) return void waiting.push(one)
    const first = [one]
    ofAccounts.set(accountId, first)
    void writeGroups(deps, first, () => ofAccounts.delete(accountId))
  })
}

/** Writes an account's tasks in groups until none is waiting; calls `onEmpty` at that moment. Never rejects. */
async function writeGroups(deps: Deps, waiting: QueuedDraft[], onEmpty: () => void): Promise<void> {
  for (let first = waiting[0]; first; first = waiting[0]) {
    try {
      using _turn = await takeTurn(first.draft.accountId)
      await writeGroup(deps, nextGroup(waiting))
    } catch (err) {
      for (const { failed } of waiting.splice(0)) failed(err)
    }
    const before = performance.now() - MAX_WAIT_MS
    const fresh = waiting.findIndex(({ since }) => since > before)
    for (const { failed } of waiting.splice(0, fresh === -1 ? waiting.length : fresh)) failed(tooManyWait())
  }
  onEmpty()
}

/** Takes the next group from the waiting tasks. */
function nextGroup(waiting: QueuedDraft[]): QueuedDraft[] {
  let bytes = 0
  const end = waiting.findIndex(({ draft }, i) => {
    bytes += draft.input?.length ?? 0
    return i === MAX_GROUP || (i > 0 && bytes > MAX_GROUP_BYTES)
  })
  return waiting.splice(0, end === -1 ? waiting.length : end)
}

/** Writes a group. If a row can't be written, halves the group until that row is isolated. */
async function writeGroup(deps: Deps, group: readonly QueuedDraft[]): Promise<void> {
  const drafts = group.map(({ draft }) => draft)
  try {
    const refusals = await deps.db.transaction().execute((trx) => insertQueued(deps, trx, drafts))
    for (const [i, { written, failed }] of group.entries()) {
      if (refusals[i]) failed(refusals[i])
      else written()
    }
  } catch (err) {
    if (!isPermanent(err)) return failUnwritten(deps, group, err)
    if (group.length === 1) return at(group, 0).failed(err)
    const middle = Math.ceil(group.length / 2)
    await writeGroup(deps, group.slice(0, middle))
    await writeGroup(deps, group.slice(middle))
  }
}

/** Fails the tasks of a group that wasn't written. Checks first, because the connection may break after the commit. */
async function failUnwritten({ db }: Deps, group: readonly QueuedDraft[], err: unknown): Promise<void> {
  const ids = group.map(({ draft }) => draft.taskId)
  const known = await taskRepository.findExisting(db, ids).catch(() => new Set<string>())
  for (const { draft, written, failed } of group) {
    if (known.has(draft.taskId)) written()
    else failed(err)
  }
}

/** Waits for a turn no longer than for a connection, because the request ahead may itself be stuck on the database. */
const takeTurn = async (accountId: string): Promise<Disposable> =>
  turns.takeFree(accountId) ??
  (await turns.take(accountId, AbortSignal.timeout(MAX_WAIT_MS)).catch((cause: unknown) => {
    throw tooManyWait({ cause })
  }))

const tooManyWait = (options?: { cause: unknown }): ApiError =>
  temporaryError(
    'unavailable',
    'too many tasks of this account are waiting to be written; try again',
    RETRY_AFTER_S,
    options,
  )

/** Inserts tasks of one account; returns an error for each task that exceeds the quota. */
async function insertQueued(
  { memory }: Pick<Deps, 'memory'>,
  trx: Transaction<Database>,
  drafts: readonly TaskDraft[],
): Promise<(ApiError | undefined)[]> {
  const { quota, waiting } = await taskRepository.lockTaskQuota(trx, at(drafts, 0).accountId)
  const admitted = drafts.slice(0, Math.max(0, quota - waiting))
  if (admitted.length > 0) {
    await taskWriteRepository.insertTasks(trx, admitted.map(queuedEntry), admitted.map(startOf))
    for (const draft of admitted) await memory.attach(trx, draft)
    await passKillSwitchIn(trx)
  }
  return drafts.map((_, i) =>
    i < admitted.length ? undefined : quotaExceeded(quota, Math.max(quota, waiting)),
  )
}

/** Returns a task's workflow start. */
export const startOf = ({ taskId, accountId, endpoint }: TaskDraft) =>
  coldInferenceStart({ taskId, accountId, modelKey: endpoint.model_key })

export const quotaExceeded = (quota: number, waiting: number): ApiError =>
  temporaryError(
    'task_quota_exceeded',
    `this account already has ${quota} tasks waiting for a node, which is the limit; try again later, or cancel some`,
    RETRY_AFTER_S,
    { details: { quota, waiting } },
  )
