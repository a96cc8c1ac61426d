import { LRUCache } from 'lru-cache'
import type { NewInvocation, Settlement, TaskEntry, TaskTemplate } from '../../db/repositories/tasks/entry.ts'
import * as taskRepository from '../../db/repositories/tasks/tasks.ts'
import { NO_TOKENS } from '../../domain/chat/chat.ts'
import { newId } from '../../domain/ids.ts'
import { hold } from '../../domain/ledger.ts'
import type { ModelState } from '../../schemas/inference-task.ts'
import type { BudgetHold } from '../gateway/caches/key-meters.ts'
import type { AdmittedRequest } from './admission.ts'
import type { WarmWork } from './warm.ts'

/** The fields of a task before its row exists. */
export interface TaskDraft extends Omit<AdmittedRequest, 'input'> {
  /** Null if the input isn't stored: a chat's content stays with the client. */
  input: Buffer | null
  /** The state in which the task found its model, if not `resident`. */
  modelState?: ModelState
  taskId: string
  createdAt: Date
  /** The budget hold, booked once the task's row is durable. */
  budgetHold?: Pick<BudgetHold, 'book'>
  /** Set if the task does an action's work. */
  invocation?: NewInvocation | undefined
}

/** Returns the draft of a new task for an admitted request. */
export const newDraft = (admitted: AdmittedRequest, now: Date): TaskDraft & AdmittedRequest => ({
  ...admitted,
  taskId: newId(),
  createdAt: now,
})

const templates = new LRUCache<string, TaskTemplate>({ max: 10_000 })

type TemplateVariant = Pick<TaskTemplate, 'status' | 'node_id' | 'gateway_id'> & {
  modelState: ModelState | null
  /** The account whose node earns the payout. */
  owner: string | undefined
}

/** Each endpoint's last template. The next task usually needs the same one, which saves building its key. */
const latest = new WeakMap<
  AdmittedRequest['endpoint'],
  {
    accountId: string
    keyId: string | undefined
    surface: string
    varying: TemplateVariant
    template: TaskTemplate
  }
>()

/** Returns the row's template. Rows with the same values share one object, so a batch contains it once. */
function templateOf(draft: TaskDraft, varying: TemplateVariant): TaskTemplate {
  const { endpoint, accountId, keyId, surface } = draft
  const last = latest.get(endpoint)
  if (
    last &&
    last.accountId === accountId &&
    last.keyId === keyId &&
    last.surface === surface &&
    isSame(last.varying, varying)
  ) {
    return last.template
  }
  const { status, modelState, node_id, gateway_id, owner } = varying
  const key = `${endpoint.id} ${endpoint.price_micro} ${accountId} ${keyId} ${surface} ${status} ${modelState} ${node_id} ${gateway_id} ${owner}`
  let template = templates.get(key)
  if (!template) templates.set(key, (template = newTemplate(draft, varying)))
  latest.set(endpoint, { accountId, keyId, surface, varying, template })
  return template
}

const isSame = (a: TemplateVariant, b: TemplateVariant): boolean =>
  a.status === b.status &&
  a.modelState === b.modelState &&
  a.node_id === b.node_id &&
  a.gateway_id === b.gateway_id &&
  a.owner === b.owner

function newTemplate(
  { endpoint, accountId, keyId, surface }: TaskDraft,
  { status, modelState, node_id, gateway_id, owner }: TemplateVariant,
): TaskTemplate {
  const { id: endpoint_id, model_key, price_micro } = endpoint
  const price = { accountId, priceMicro: price_micro }
  const end =
    status === 'succeeded' || status === 'failed' ? taskRepository.endOf(price, status, owner) : undefined
  return {
    account_id: accountId,
    endpoint_id,
    status,
    surface,
    model_key,
    model_state: modelState,
    price_micro,
    node_id,
    gateway_id,
    key_id: keyId ?? null,
    transfers: [...hold(price), ...(end?.transfers ?? [])],
    event: end?.event,
  }
}

/** The row of an open task. */
const openEntry = (draft: TaskDraft, template: TaskTemplate, startedAt: Date | null): TaskEntry => ({
  template,
  id: draft.taskId,
  input: draft.input,
  result: null,
  error: null,
  inference_time_ms: null,
  created_at: draft.createdAt,
  started_at: startedAt,
  completed_at: null,
  tokens: NO_TOKENS,
  invocation: draft.invocation,
})

/** The row of a task that a workflow runs. */
export const queuedEntry = (draft: TaskDraft): TaskEntry => {
  const queued = { status: 'queued', modelState: null, node_id: null, gateway_id: null } as const
  return openEntry(draft, templateOf(draft, { ...queued, owner: undefined }), null)
}

/** The row of a task that this gateway continues after responding with `running`. */
export const runningEntry = (draft: TaskDraft, gatewayId: string): TaskEntry => {
  const running = { status: 'running', node_id: null, gateway_id: gatewayId, owner: undefined } as const
  const modelState = draft.modelState ?? 'resident'
  return openEntry(draft, templateOf(draft, { ...running, modelState }), draft.createdAt)
}

/** The row of a task that has ended before its row is written. */
export function endedEntry(
  draft: TaskDraft,
  { nodeId, startedAt, inferenceTimeMs, outcome }: WarmWork,
  owner: string | undefined,
  now: Date,
): TaskEntry {
  const succeeded = outcome.status === 'succeeded'
  return {
    template: templateOf(draft, {
      status: outcome.status,
      modelState: draft.modelState ?? 'resident',
      node_id: nodeId,
      gateway_id: null,
      owner,
    }),
    id: draft.taskId,
    // Only rows of unfinished work need the input.
    input: null,
    result: succeeded ? outcome.result : null,
    error: succeeded ? null : outcome.error,
    inference_time_ms: succeeded ? inferenceTimeMs : null,
    created_at: draft.createdAt,
    started_at: startedAt,
    completed_at: now,
    tokens: succeeded ? outcome.tokens : NO_TOKENS,
    invocation: draft.invocation,
  }
}

/** The settlement of a task that was written as running. */
export function runningSettlement(
  draft: TaskDraft,
  work: WarmWork,
  owner: string | undefined,
  now: Date,
): Settlement {
  const { taskId, accountId, endpoint } = draft
  const { nodeId, inferenceTimeMs, outcome } = work
  return taskRepository.settlementOf(
    { id: taskId, account_id: accountId, price_micro: endpoint.price_micro },
    outcome.status === 'succeeded'
      ? {
          status: 'succeeded',
          result: outcome.result,
          inferenceTimeMs,
          modelState: draft.modelState ?? 'resident',
          tokens: outcome.tokens,
        }
      : outcome,
    { now, nodeId, ownerAccountId: owner },
  )
}
