import * as nodeLoadRepository from '../../db/repositories/nodes/loads.ts'
import type { MeasuredTask } from '../../db/repositories/tasks/shown.ts'
import { makesFiles } from '../../domain/task-types/index.ts'
import type { InferResponse } from '../../schemas/inference-task.ts'
import { emit } from '../events.ts'
import { ClientGoneError } from '../http/bodies/body.ts'
import { withText } from '../http/bodies/json-text.ts'
import type { ClientDisconnect } from '../http/connections/client-disconnect.ts'
import type { Services } from '../services.ts'
import { type AdmittedRequest, modelStateOf } from './admission.ts'
import { awaitTask, cancelTask, moveToWorkflow, loadEstimate } from './durable.ts'
import { completeResult } from './long-results.ts'
import { noNodeReason } from './no-node.ts'
import { ownerOfNode } from './node-owner.ts'
import { queueTask } from './queue-task.ts'
import { endedEntry, runningEntry, runningSettlement, type TaskDraft } from './rows.ts'
import { presentResult } from './task-result.ts'
import { inferOnWarmNode, type WarmResponse } from './warm.ts'

const LATE: unique symbol = Symbol('late')
const MAX_DURATION_MS = 60 * 60 * 1000

/** A request in flight to a loaded model, with a way to stop it. */
interface InFlightRequest {
  inference: Promise<WarmResponse | undefined>
  work: Cancellation
}

export interface SyncOptions {
  timeoutMs: number
  /** Aborts if the client disconnects before its response is complete. */
  disconnect: ClientDisconnect
}

export const pollNote = (taskId: string): string => `Poll GET /api/builder/v1/tasks/${taskId} for the result.`

/** Responds with the result if it is ready in time: directly from a loaded model, otherwise through a task. */
export async function inferSync(
  services: Services,
  draft: TaskDraft & AdmittedRequest,
  options: SyncOptions,
): Promise<InferResponse> {
  services.journal.admit()
  const { timeoutMs, disconnect } = options
  const began = performance.now()
  const work = new Cancellation()
  const waiting = new Cancellation()
  let isWaiting = true
  disconnect.addEventListener('abort', () => {
    waiting.abort()
    if (isWaiting) work.abort()
  })
  if (makesFiles(draft.endpoint.task_type)) return answerFromTask(services, draft, options, began)
  const inference = inferOnWarmNode(services, draft, work, {
    memory: services.memory.forRequest(draft),
    waiting,
  })
  try {
    let answer = await firstOf(inference, timeoutMs)
    if (answer === LATE) {
      // A request that is still waiting for a slot ends at once and becomes a durable task.
      waiting.abort()
      answer = await firstOf(inference, 0)
    }
    if (answer === LATE)
      return await answerRunning(services, draft, { inference, work }, { ...options, began })
    if (!answer && disconnect.aborted)
      throw new ClientGoneError('the client disconnected before it received its response')
    if (!answer) return await answerFromTask(services, draft, options, began)
    if (answer.room.isHeld) disconnect.whenOver(() => answer.room.release())
    return await answerEnded(services, draft, answer, began)
  } catch (err) {
    work.abort()
    // The request may fail as well, for example because we just aborted it.
    void inference.then(
      (answer) => answer?.room.release(),
      () => {},
    )
    if (!disconnect.aborted) throw err
    throw new ClientGoneError('the client disconnected before it received its response')
  } finally {
    isWaiting = false
  }
}

/** Resolves like `inference`, or to `LATE` if that takes longer than the client waits. */
function firstOf<T>(inference: Promise<T>, timeoutMs: number): Promise<T | typeof LATE> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(LATE), timeoutMs)
    const end =
      <V>(settle: (value: V) => void) =>
      (value: V) => {
        clearTimeout(timer)
        settle(value)
      }
    inference.then(end(resolve), end(reject))
  })
}

/** The usual case: writes one row, batched with those of other requests, and then responds. */
async function answerEnded(
  services: Services,
  draft: TaskDraft,
  answer: WarmResponse,
  began: number,
): Promise<InferResponse> {
  const known = ownerOfNode(services, draft.endpoint.price_micro, answer.nodeId)
  const owner = known instanceof Promise ? await known : known
  const { outcome } = answer
  if (outcome.status === 'succeeded') services.keyMeters.spend(draft.keyId, outcome.tokens)
  await services.journal.insert(endedEntry(draft, answer, owner, services.now()))
  draft.budgetHold?.book()
  return {
    task_id: draft.taskId,
    status: outcome.status,
    model_state: 'resident',
    ...(outcome.status === 'succeeded'
      ? { result: withText(outcome.value, outcome.result) }
      : { message: outcome.error, error: outcome.error }),
    sync_latency_ms: sinceMs(began),
  }
}

/** If a loaded model takes longer than the client waits, writes the row now; this gateway settles the task later. */
async function answerRunning(
  services: Services,
  draft: TaskDraft,
  request: InFlightRequest,
  { disconnect, began }: SyncOptions & { began: number },
): Promise<InferResponse> {
  const { opened, written } = services.journal.open(runningEntry(draft, services.gateway.id))
  const reported = opened.then(() => cancelUnlessReported(services, draft.taskId, disconnect))
  // This gateway must settle the row even if the cancellation failed or came late, because no other process does so
  // while this one is alive.
  const finished = reported
    .catch(() => written)
    .then(() => finish(services, draft, request))
    .catch((err: unknown) => emit(services.log, 'task.finish_failed', { err, task_id: draft.taskId }))
  services.journal.keep(finished)
  await reported
  draft.budgetHold?.book()
  return {
    task_id: draft.taskId,
    status: 'running',
    model_state: 'resident',
    sync_latency_ms: sinceMs(began),
    note: `The model is still running. ${pollNote(draft.taskId)}`,
  }
}

async function finish(
  services: Services,
  draft: TaskDraft,
  { inference, work }: InFlightRequest,
): Promise<void> {
  const over = new AbortController()
  // A client may cancel the task through any gateway.
  void services.taskWaiters
    .wait(draft.taskId, MAX_DURATION_MS, over.signal)
    .then((ended) => ended && work.abort())
  const answer = await inference.catch(() => undefined)
  over.abort()
  // Every node with the model is gone, so a workflow finds another node; a cancelled task stays cancelled.
  if (!answer) return moveToWorkflow(services, draft)
  if (answer.outcome.status === 'succeeded') services.keyMeters.spend(draft.keyId, answer.outcome.tokens)
  const owner = await ownerOfNode(services, draft.endpoint.price_micro, answer.nodeId)
  try {
    await services.journal.settle(runningSettlement(draft, answer, owner, services.now()))
  } finally {
    answer.room.release()
  }
}

/** No node has the model loaded: a workflow runs the task, and the client waits for up to its requested timeout. */
async function answerFromTask(
  services: Services,
  draft: TaskDraft,
  { timeoutMs, disconnect }: SyncOptions,
  began: number,
): Promise<InferResponse> {
  const state = modelStateOf(services, draft)
  const remainingMs = Math.max(0, timeoutMs - (performance.now() - began))
  const ended = services.taskWaiters.wait(draft.taskId, remainingMs, disconnect.signal)
  await queueTask(services, draft)
  const row = await awaitTask(services, draft, ended)
  // The state in which the task found its model; another request may have loaded it in the meantime.
  const met = row?.model_state ?? state
  const estimate = await loadEstimate(services, draft.endpoint.model_key, met)
  if (row)
    return { ...(await fromRow(services, row, { surface: draft.surface, disconnect, began })), ...estimate }
  await cancelUnlessReported(services, draft.taskId, disconnect)
  return {
    task_id: draft.taskId,
    status: 'queued',
    model_state: state,
    sync_latency_ms: sinceMs(began),
    ...estimate,
    message: await pendingReason(services, draft),
    note: pollNote(draft.taskId),
  }
}

/** Returns why a task didn't end in time: its model isn't ready, or no node can run it. */
async function pendingReason(
  { db, links, now }: Services,
  { endpoint: { model_key }, accountId: account_id }: TaskDraft,
): Promise<string> {
  const needs = await nodeLoadRepository.findModelNeeds(db, model_key)
  const need = needs && { ...needs, model_key, account_id, now: now().getTime() }
  const placed = need && links.placement.place(need, Math.random)
  if (!placed || placed.chosen) return 'The model was not ready in time; the task continues.'
  return `No node can take the task now: ${noNodeReason(placed.explain())}. It waits for a node for up to 24 hours unless it is cancelled; an operator can check the nodes with "hearth nodes list".`
}

/**
 * Cancels a task if its client disconnects before the response is written: the client doesn't know the task's id, so it
 * could never read the result. Throws if the client has already disconnected.
 */
async function cancelUnlessReported(
  services: Services,
  taskId: string,
  disconnect: ClientDisconnect,
): Promise<void> {
  const cancel = () => cancelTask(services, taskId, 'the caller disconnected before the result')
  if (disconnect.aborted) {
    await cancel()
    throw new ClientGoneError('the client disconnected before it received its response')
  }
  const leave = () =>
    void cancel().catch((err: unknown) => emit(services.log, 'task.abandon_failed', { err, task_id: taskId }))
  disconnect.addEventListener('abort', leave)
}

async function fromRow(
  services: Pick<Services, 'db' | 'objects' | 'longAnswers'>,
  row: MeasuredTask,
  {
    surface,
    disconnect: { signal, response: res },
    began,
  }: Pick<TaskDraft, 'surface'> & { disconnect: ClientDisconnect; began: number },
): Promise<InferResponse> {
  // Several tool calls may share one response.
  const reader = { signal, res, surface: surface === 'mcp' ? surface : undefined }
  const result = await presentResult(services.objects, await completeResult(services, row, reader))
  return {
    task_id: row.id,
    status: row.status,
    model_state: row.model_state,
    ...(result && { result }),
    ...(row.error !== null && { message: row.error, error: row.error }),
    sync_latency_ms: sinceMs(began),
  }
}

const sinceMs = (began: number): number => Math.round((performance.now() - began) * 100) / 100

/**
 * Notifies everyone involved in a piece of work that it is cancelled. Every warm request needs one, and an
 * `AbortController` with its signal would cost each request a kilobyte and a microsecond.
 */
class Cancellation {
  readonly #listeners: (() => void)[] = []
  #aborted = false

  get aborted(): boolean {
    return this.#aborted
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Calls the listeners; safe to repeat. */
  abort(): void {
    if (this.#aborted) return
    this.#aborted = true
    for (const listener of this.#listeners) listener()
  }
}
