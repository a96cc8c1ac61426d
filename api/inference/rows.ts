import { settlementOf, taskEvent } from '../../db/repositories/tasks.ts'
import type { Settlement, TaskEntry } from '../../db/repositories/task-writes.ts'
import { tokensIn } from '../../domain/chat.ts'
import { capture, hold, refund } from '../../domain/ledger.ts'
import type { ModelState } from '../../schemas/inference-task.ts'
import type { Admitted } from './admission.ts'
import type { WarmAnswer } from './warm.ts'

/** A request as it becomes a row. */
export interface Ticket extends Omit<Admitted, 'input'> {
  /** Null where it is not kept: that of a chat is its client's alone. */
  input: Buffer | null
  /** The state its model was met in, when that is not `resident`. */
  modelState?: ModelState
  taskId: string
  createdAt: Date
}

const EMPTY = {
  model_state: null,
  input: null,
  result: null,
  error: null,
  node_id: null,
  gateway_id: null,
  inference_time_ms: null,
  started_at: null,
  completed_at: null,
}

const base = ({ taskId, accountId, endpoint, surface, createdAt }: Ticket) => ({
  id: taskId,
  account_id: accountId,
  endpoint_id: endpoint.id,
  surface,
  model_key: endpoint.model_key,
  price_micro: endpoint.price_micro,
  created_at: createdAt,
})

const priced = ({ taskId, accountId, endpoint }: Ticket) => ({
  taskId,
  accountId,
  priceMicro: endpoint.price_micro,
})

/** A task for a workflow to finish. */
export const queuedEntry = (ticket: Ticket): TaskEntry => ({
  task: { ...EMPTY, ...base(ticket), status: 'queued', input: ticket.input },
  postings: hold(priced(ticket)),
  event: undefined,
})

/** A task that this gateway goes on with after it has answered `running`. */
export const runningEntry = (ticket: Ticket, gatewayId: string): TaskEntry => ({
  task: {
    ...EMPTY,
    ...base(ticket),
    status: 'running',
    model_state: ticket.modelState ?? 'resident',
    input: ticket.input,
    gateway_id: gatewayId,
    started_at: ticket.createdAt,
  },
  postings: hold(priced(ticket)),
  event: undefined,
})

/** A task that has ended before its row is written. */
export function endedEntry(
  ticket: Ticket,
  answer: WarmAnswer,
  owner: string | undefined,
  now: Date,
): TaskEntry {
  const { nodeId, startedAt, inferenceTimeMs, outcome } = answer
  const price = priced(ticket)
  const succeeded = outcome.status === 'succeeded'
  return {
    task: {
      ...EMPTY,
      ...base(ticket),
      status: outcome.status,
      model_state: ticket.modelState ?? 'resident',
      result: succeeded ? outcome.result : null,
      error: succeeded ? null : outcome.error,
      node_id: nodeId,
      inference_time_ms: succeeded ? inferenceTimeMs : null,
      started_at: startedAt,
      completed_at: now,
    },
    postings: [...hold(price), ...(succeeded ? capture(price, owner) : refund(price))],
    event: taskEvent({ id: ticket.taskId, account_id: ticket.accountId }, outcome.status, now),
    tokens: succeeded ? tokensIn(outcome.value) : 0,
  }
}

/** The end of a task that was written as running. */
export function runningSettlement(
  ticket: Ticket,
  answer: WarmAnswer,
  owner: string | undefined,
  now: Date,
): Settlement {
  const { taskId, accountId, endpoint } = ticket
  const { nodeId, inferenceTimeMs, outcome } = answer
  return settlementOf(
    { id: taskId, account_id: accountId, price_micro: endpoint.price_micro },
    outcome.status === 'succeeded'
      ? {
          status: 'succeeded',
          result: outcome.result,
          inferenceTimeMs,
          modelState: ticket.modelState ?? 'resident',
          tokens: tokensIn(outcome.value),
        }
      : outcome,
    { now, nodeId, ownerAccountId: owner },
  )
}
