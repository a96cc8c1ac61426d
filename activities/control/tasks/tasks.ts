import { LRUCache } from 'lru-cache'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import * as waitingTaskRepository from '../../../db/repositories/tasks/waiting.ts'
import { getOrThrow } from '../../../domain/at.ts'
import { isTerminalTask, MAX_TASK_ATTEMPTS } from '../../../domain/inference-task.ts'
import {
  type AccountNeed,
  DispatchedTasks,
  hasWarmQueue,
} from '../../../domain/placement/dispatched-tasks.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex, type Verdict } from '../../../domain/placement/placement.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { turnKeyOf } from '../../../platform/turn-key.ts'
import type { ControlDeps } from '../deps.ts'

export interface PlaceTaskInput {
  taskId: string
  /** Nodes that have already lost this task. They are chosen again only if there is no other node. */
  avoid: readonly string[]
  /** True if the last node lost the task as well. */
  lost: boolean
  /** True if a gateway has signaled that a node has room, which makes the cached refusals stale. */
  woken?: boolean
}

/** The placement of a task. It is small, because the workflow's history stores it. */
export interface TaskPlacement {
  /** True if the task has already ended. */
  ended: boolean
  /** True if the task has reached the limit of attempts. */
  spent: boolean
  modelKey: string
  accountId: string
  /**
   * The shared queue to try first, when any of its nodes will do. Only shared nodes poll these queues. Workers up to
   * 0.12 also returned `cached`, which histories still contain.
   */
  shared?: 'warm' | 'cached'
  /** Identifies the account when accounts take turns on the node. Workers before 0.13 do not return it. */
  turn?: string
  /** The best node; absent when no node can run the task. */
  nodeId?: string
  /** `avoid` plus the node that has just lost the task. */
  avoid: string[]
  /** The reason why no node can run the task. */
  why?: string
  /** The number of waiting tasks, including this one; present when no node can run it. */
  waiting?: number
}

/** The reasons why a task ends without a result; each has a message for callers. */
export type TaskEndReason = 'expired' | 'cancelled' | 'attempts' | 'failed'

const SENTENCES: Readonly<Record<TaskEndReason, string>> = {
  expired: 'the task waited longer than 24 hours for a node and was abandoned',
  cancelled: 'the task was cancelled',
  attempts: 'the task was tried on several nodes and none finished it',
  failed: 'the task could not be run',
}
const MAX_WHY = 300
/** How long one task's refusal also applies to other tasks for the same model. */
const REFUSAL_TTL_MS = 1_000
const MAX_FULL = 10_000

export function createInferenceActivities({ db, now }: Pick<ControlDeps, 'db' | 'now'>) {
  /**
   * Why no node could run a task a moment ago, by account and model. One placement attempt serves all tasks that are
   * waiting for the model.
   */
  const full = new LRUCache<string, string>({ max: MAX_FULL, ttl: REFUSAL_TTL_MS })
  const counted = new LRUCache<string, number>({ max: MAX_FULL, ttl: REFUSAL_TTL_MS })

  /** Records that a task is waiting for a node. */
  async function unplaced(
    { id, account_id, waiting_since }: taskRepository.TaskFacts,
    why: string,
  ): Promise<PlacementWait> {
    if (waiting_since === null) await waitingTaskRepository.noteUnplaced(db, id)
    let waiting = counted.get(account_id)
    if (waiting === undefined)
      counted.set(account_id, (waiting = await waitingTaskRepository.countUnplaced(db, account_id)))
    return { why, waiting }
  }

  return {
    /**
     * Takes a task back from its last owner and chooses a node for it. Safe to repeat because no node works on the task
     * between this step and its workflow's next one.
     */
    async placeTask({ taskId, avoid, lost, woken = false }: PlaceTaskInput): Promise<TaskPlacement> {
      const task = await db.transaction().execute(async (trx) => {
        const row = await taskRepository.lockTask(trx, taskId)
        return row && !isTerminalTask(row.status) ? taskRepository.requeueTask(trx, row) : undefined
      })
      if (!task) return { ended: true, spent: false, modelKey: '', accountId: '', avoid: [] }

      const base = {
        ended: false,
        spent: task.attempt >= MAX_TASK_ATTEMPTS,
        modelKey: task.model_key,
        accountId: task.account_id,
        avoid: lost && task.node_id ? [...new Set([...avoid, task.node_id])] : [...avoid],
      }
      const key = `${task.account_id} ${task.model_key}`
      const cachedRefusal = base.avoid.length === 0 && !woken ? full.get(key) : undefined
      if (cachedRefusal !== undefined) return { ...base, ...(await unplaced(task, cachedRefusal)) }
      const needs = await nodeLoadRepository.findModelNeeds(db, task.model_key)
      if (!needs) return { ...base, spent: true }
      const { unusable, ...need } = needs
      if (unusable !== null) {
        const outcome = { status: 'failed', error: unusable } as const
        await db.transaction().execute((trx) => taskRepository.endTask(trx, taskId, outcome, now()))
        return { ...base, ended: true }
      }

      const isTool = isToolKey(task.model_key)
      const [snapshots, held] = await Promise.all([
        nodeLoadRepository.readSnapshots(db),
        waitingTaskRepository.listHeldModels(db),
      ])
      const decision = decide(snapshots, new DispatchedTasks(held), {
        ...need,
        model_key: task.model_key,
        account_id: task.account_id,
        exclude: new Set(base.avoid),
        // A tool can't be loaded: a node either reports it or lacks it.
        ...(isTool && { atLeast: 'warm' as const }),
        now: now().getTime(),
      })
      if (decision.nodeId === undefined) {
        full.set(key, decision.why)
        return { ...base, ...(await unplaced(task, decision.why)) }
      }
      const { nodeId } = decision
      await db
        .transaction()
        .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId, modelKey: task.model_key }))
      await taskRepository.assignTask(db, taskId, nodeId)
      return { ...base, ...decision, turn: turnKeyOf(task.account_id) }
    },

    /** Ends a task without a result. Safe to repeat because a task ends once. */
    async giveUpTask({ taskId, reason }: { taskId: string; reason: TaskEndReason }): Promise<void> {
      await db.transaction().execute(async (trx) => {
        const task = await taskRepository.lockTask(trx, taskId)
        // The last node's error is more useful than the fact that all attempts failed.
        const detail = reason === 'attempts' || reason === 'failed' ? task?.error : undefined
        const error = detail ?? SENTENCES[reason]
        await taskRepository.endTask(
          trx,
          taskId,
          { status: 'failed', error, expired: reason === 'expired' },
          now(),
        )
      })
    },
  }
}

type PlacementWait = Required<Pick<TaskPlacement, 'why' | 'waiting'>>
type Decision = { nodeId: string; shared?: 'warm' } | { nodeId?: never; why: string }

/** Places a task. On each node, an account may use at most its share of the slots at once. */
function decide(snapshots: readonly NodeSnapshot[], held: DispatchedTasks, need: AccountNeed): Decision {
  const index = new PlacementIndex()
  for (const snapshot of snapshots) index.put(snapshot)

  const elsewhere = index.place(need, Math.random).chosen
  // The shared queue may give the task to a node that must be avoided, so send it to the chosen node only.
  if (elsewhere && need.exclude?.size) return { nodeId: elsewhere.node_id }
  const { exclude: _, ...anywhere } = need
  const nodes = new Map(snapshots.map((node) => [node.node_id, node]))
  const { chosen, free, explain } = held.place(index, nodes, anywhere, Math.random)
  if (!chosen) return { why: formatVerdicts(explain()) }
  if (!free)
    return { why: `node ${chosen.node_id} is already running as many of the account's tasks as it may` }
  const { node_id: nodeId } = free
  return {
    nodeId,
    ...(hasWarmQueue(getOrThrow(nodes, nodeId), need.model_key) && { shared: 'warm' as const }),
  }
}

function formatVerdicts(verdicts: readonly Verdict[]): string {
  if (verdicts.length === 0) return 'no node is connected'
  const words = verdicts.map(({ node_id, reason }) => `node ${node_id} ${reason}`).join('; ')
  return words.length <= MAX_WHY ? words : `${words.slice(0, MAX_WHY)}…`
}
