import { findModelNeeds } from '../../db/repositories/nodes/loads.ts'
import type { TaskRow } from '../../db/tables/inference.ts'
import { newId } from '../../domain/ids.ts'
import type { InferResponse } from '../../schemas/inference-task.ts'
import { emit } from '../events.ts'
import { ClientGoneError } from '../http/body.ts'
import type { Services } from '../services.ts'
import { type Admitted, modelStateOf } from './admission.ts'
import { awaitTask, cancelTask, handOver, loadEstimate, queueTask } from './durable.ts'
import { whyNoNode } from './no-node.ts'
import { ownerOfNode } from './node-owner.ts'
import { endedEntry, runningEntry, runningSettlement, type TaskDraft } from './rows.ts'
import { askWarm, type WarmAnswer } from './warm.ts'

const LATE: unique symbol = Symbol('late')
const LONGEST_MS = 60 * 60 * 1000

/** A request to a loaded model that is under way, and the way to stop it. */
interface Running {
  asked: Promise<WarmAnswer | undefined>
  work: AbortController
}

export interface SyncOptions {
  timeoutMs: number
  /** Aborts when the client leaves before its answer is written. */
  signal: AbortSignal
  /** Calls back once the client has its answer or is gone. */
  whenOver: (listener: () => void) => void
}

export const pollNote = (taskId: string): string => `Poll GET /api/builder/v1/tasks/${taskId} for the result.`

/** Answers with the result when it comes in time: from a loaded model at once, else by way of a task. */
export async function inferSync(
  services: Services,
  admitted: Admitted,
  options: SyncOptions,
): Promise<InferResponse> {
  services.journal.admit()
  const began = performance.now()
  const draft: TaskDraft = { ...admitted, taskId: newId(), createdAt: services.now() }
  const work = new AbortController()
  const leave = () => work.abort()
  options.signal.addEventListener('abort', leave, { once: true })
  const asked = askWarm(services, admitted, work.signal)
  // Awaited in several places; none of them may be too late to count.
  asked.catch(() => {})
  const late = Promise.withResolvers<typeof LATE>()
  const timer = setTimeout(() => late.resolve(LATE), options.timeoutMs)
  try {
    const answer = await Promise.race([asked, late.promise])
    if (typeof answer === 'symbol')
      return await answerRunning(services, draft, { asked, work }, { ...options, began })
    if (answer) options.whenOver(() => answer.room.release())
    if (answer) return await answerEnded(services, draft, answer, began)
    return await answerFromTask(services, draft, options, began)
  } catch (err) {
    work.abort()
    // What was asked may fail as well, for example because this has just broken it off.
    void asked.then(
      (answer) => answer?.room.release(),
      () => {},
    )
    if (!options.signal.aborted) throw err
    throw new ClientGoneError('the client left before its answer')
  } finally {
    clearTimeout(timer)
    options.signal.removeEventListener('abort', leave)
  }
}

/** The usual way: one row, written with those of other requests, and then the answer. */
async function answerEnded(
  services: Services,
  draft: TaskDraft,
  answer: WarmAnswer,
  began: number,
): Promise<InferResponse> {
  const owner = await ownerOfNode(services, draft.endpoint.price_micro, answer.nodeId)
  await services.journal.insert(endedEntry(draft, answer, owner, services.now()))
  const { outcome } = answer
  return {
    task_id: draft.taskId,
    status: outcome.status,
    model_state: 'resident',
    ...(outcome.status === 'succeeded' ? { result: outcome.value } : { message: outcome.error }),
    sync_latency_ms: sinceMs(began),
  }
}

/** A loaded model that takes longer than the client waits: the row is written, and this gateway sees to its end. */
async function answerRunning(
  services: Services,
  draft: TaskDraft,
  request: Running,
  { signal, began }: SyncOptions & { began: number },
): Promise<InferResponse> {
  const { opened, written } = services.journal.open(runningEntry(draft, services.gateway.id))
  const told = opened.then(() => cancelUnlessTold(services, draft.taskId, signal))
  // Also when it should have been cancelled and could not be, or is late: nobody else ends the row while this gateway lives.
  const finished = told
    .catch(() => written)
    .then(() => finish(services, draft, request))
    .catch((err: unknown) => emit(services.log, 'task.finish_failed', { err, task_id: draft.taskId }))
  services.journal.keep(finished)
  await told
  return {
    task_id: draft.taskId,
    status: 'running',
    model_state: 'resident',
    sync_latency_ms: sinceMs(began),
    note: `The model is still at work. ${pollNote(draft.taskId)}`,
  }
}

async function finish(services: Services, draft: TaskDraft, { asked, work }: Running): Promise<void> {
  const over = new AbortController()
  // Cancelled, on whichever gateway.
  void services.taskWaiters.wait(draft.taskId, LONGEST_MS, over.signal).then((ended) => ended && work.abort())
  const answer = await asked.catch(() => undefined)
  over.abort()
  // Every node that had the model is gone, and a workflow finds another; a cancelled task stays as it is.
  if (!answer) return handOver(services, draft)
  const owner = await ownerOfNode(services, draft.endpoint.price_micro, answer.nodeId)
  try {
    await services.journal.settle(runningSettlement(draft, answer, owner, services.now()))
  } finally {
    answer.room.release()
  }
}

/** No node has the model loaded: a workflow sees to it, and the client waits for that as long as it asked to. */
async function answerFromTask(
  services: Services,
  draft: TaskDraft,
  { timeoutMs, signal }: SyncOptions,
  began: number,
): Promise<InferResponse> {
  const state = modelStateOf(services, draft)
  const left = Math.max(0, timeoutMs - (performance.now() - began))
  const ended = services.taskWaiters.wait(draft.taskId, left, signal)
  await queueTask(services, draft)
  const row = await awaitTask(services, draft, ended)
  // What the model was met in once it was served, which another request may have loaded meanwhile.
  const met = row?.model_state ?? state
  const estimate = await loadEstimate(services, draft.endpoint.model_key, met)
  if (row) return { ...fromRow(row, sinceMs(began)), ...estimate }
  await cancelUnlessTold(services, draft.taskId, signal)
  return {
    task_id: draft.taskId,
    status: 'queued',
    model_state: state,
    sync_latency_ms: sinceMs(began),
    ...estimate,
    message: await whyNotYet(services, draft),
    note: pollNote(draft.taskId),
  }
}

/** What became of a task that is not over in time: that its model is not ready, or that no node is there for it. */
async function whyNotYet(
  { db, links, now }: Services,
  { endpoint: { model_key }, accountId: account_id }: TaskDraft,
): Promise<string> {
  const needs = await findModelNeeds(db, model_key)
  const need = needs && { ...needs, model_key, account_id, now: now().getTime() }
  const placed = need && links.placement.place(need, Math.random)
  if (!placed || placed.chosen) return 'The model was not ready in time; the task goes on.'
  return `No node can take the task now: ${whyNoNode(placed.explain())}. It waits for one for at most 24 hours, or until it is cancelled; who runs the platform sees its nodes with "hearth nodes list".`
}

/**
 * For a task whose id the client has not seen yet: when it leaves before its answer is written, nobody will ever ask for the
 * task, so it is cancelled; throws when it has left already.
 */
async function cancelUnlessTold(services: Services, taskId: string, signal: AbortSignal): Promise<void> {
  const cancel = () => cancelTask(services, taskId, 'the caller left before the result')
  if (signal.aborted) {
    await cancel()
    throw new ClientGoneError('the client left before its answer')
  }
  const leave = () =>
    void cancel().catch((err: unknown) => emit(services.log, 'task.abandon_failed', { err, task_id: taskId }))
  signal.addEventListener('abort', leave, { once: true })
}

const fromRow = (row: TaskRow, latencyMs: number): InferResponse => ({
  task_id: row.id,
  status: row.status,
  model_state: row.model_state,
  ...(row.result && { result: JSON.parse(row.result.toString()) as Record<string, unknown> }),
  ...(row.error !== null && { message: row.error }),
  sync_latency_ms: latencyMs,
})

const sinceMs = (began: number): number => Math.round((performance.now() - began) * 100) / 100
