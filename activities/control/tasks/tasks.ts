import { LRUCache } from 'lru-cache'
import { findModelNeeds, readSnapshots } from '../../../db/repositories/nodes/loads.ts'
import { orderModel } from '../../../db/repositories/nodes/model-orders.ts'
import { assignTask, endTask, lockTask, requeueTask } from '../../../db/repositories/tasks/tasks.ts'
import { countUnplaced, noteUnplaced } from '../../../db/repositories/tasks/waiting.ts'
import type { TaskRow } from '../../../db/tables/inference.ts'
import { isTerminalTask, MAX_TASK_ATTEMPTS } from '../../../domain/inference-task.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex, type PlacementNeed, type Verdict } from '../../../domain/placement/placement.ts'
import type { ControlDeps } from '../deps.ts'

export interface PlaceTask {
  taskId: string
  /** Nodes that lost this task before; asked again only when there is no other. */
  avoid: readonly string[]
  /** The node that had it last has lost it as well. */
  lost: boolean
  /** A gateway has said that a node has room: what others were told before that holds no more. */
  woken?: boolean
}

/** Where a task can run. Small, for it is kept in the workflow's history. */
export interface TaskPlacement {
  /** Somebody has ended the task: nothing is left to do. */
  ended: boolean
  /** It has been tried often enough. */
  spent: boolean
  modelKey: string
  accountId: string
  /** The queue to try first: any of its nodes will do. Only shared nodes poll these. */
  shared?: 'warm' | 'cached'
  /** The best node; absent when none can take it. */
  nodeId?: string
  /** `avoid`, with the node that has lost it now. */
  avoid: string[]
  /** In words, when no node can take it. */
  why?: string
  /** How many tasks wait, this one among them, when no node can take it. */
  waiting?: number
}

/** Why a task ends without a result; the sentence that callers read is made from it. */
export type GiveUp = 'expired' | 'cancelled' | 'attempts' | 'failed'

const SENTENCES: Readonly<Record<GiveUp, string>> = {
  expired: 'the task waited longer than 24 hours for a node and was given up',
  cancelled: 'the task was cancelled',
  attempts: 'the task was tried on several nodes and none finished it',
  failed: 'the task could not be run',
}
const LONGEST_WHY = 300
/** So long what one task was told of its model holds for the others that wait for it. */
const FULL_MS = 1_000
const MOST_FULL = 10_000

export function createInferenceActivities({ db, now }: ControlDeps) {
  /** Why no node could take a model for an account a moment ago: one look serves all the tasks that wait for it. */
  const full = new LRUCache<string, string>({ max: MOST_FULL, ttl: FULL_MS })
  const counted = new LRUCache<'waiting', number>({ max: 1, ttl: FULL_MS })

  /** Puts a task among those that wait for a node. */
  async function unplaced({ id, waiting_since }: TaskRow, why: string): Promise<Waits> {
    if (waiting_since === null) await noteUnplaced(db, id)
    let waiting = counted.get('waiting')
    if (waiting === undefined) counted.set('waiting', (waiting = await countUnplaced(db)))
    return { why, waiting }
  }

  return {
    /**
     * Takes a task back from whoever had it and picks where it goes. Safe to repeat because nobody works on the task
     * between the pick and the next step of its workflow.
     */
    async placeTask({ taskId, avoid, lost, woken = false }: PlaceTask): Promise<TaskPlacement> {
      const task = await db.transaction().execute(async (trx) => {
        const row = await lockTask(trx, taskId)
        return row && !isTerminalTask(row.status) ? requeueTask(trx, row) : undefined
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
      const known = base.avoid.length === 0 && !woken ? full.get(key) : undefined
      if (known !== undefined) return { ...base, ...(await unplaced(task, known)) }
      const needs = await findModelNeeds(db, task.model_key)
      if (!needs) return { ...base, spent: true }
      const { unusable, ...need } = needs
      if (unusable !== null) {
        const outcome = { status: 'failed', error: unusable } as const
        await db.transaction().execute((trx) => endTask(trx, taskId, outcome, now()))
        return { ...base, ended: true }
      }

      const place = decide(await readSnapshots(db), {
        ...need,
        model_key: task.model_key,
        account_id: task.account_id,
        exclude: new Set(base.avoid),
        now: now().getTime(),
      })
      if (place.nodeId === undefined) {
        full.set(key, place.why)
        return { ...base, ...(await unplaced(task, place.why)) }
      }
      const { nodeId } = place
      await db.transaction().execute((trx) => orderModel(trx, { nodeId, modelKey: task.model_key }))
      await assignTask(db, taskId, nodeId)
      return { ...base, ...place }
    },

    /** Ends a task without a result. Safe to repeat because a task ends once. */
    async giveUpTask({ taskId, reason }: { taskId: string; reason: GiveUp }): Promise<void> {
      await db.transaction().execute(async (trx) => {
        const task = await lockTask(trx, taskId)
        // What the last node said is worth more than that all have failed.
        const said = reason === 'attempts' || reason === 'failed' ? task?.error : undefined
        const error = said ?? SENTENCES[reason]
        await endTask(trx, taskId, { status: 'failed', error, expired: reason === 'expired' }, now())
      })
    },
  }
}

type Waits = Required<Pick<TaskPlacement, 'why' | 'waiting'>>
type Decision = { nodeId: string; shared?: 'warm' | 'cached' } | { nodeId?: never; why: string }

function decide(snapshots: readonly NodeSnapshot[], need: PlacementNeed): Decision {
  const index = new PlacementIndex()
  for (const snapshot of snapshots) index.put(snapshot)

  const elsewhere = index.place(need, Math.random).chosen
  // What a shared queue gives out might go to a node to avoid.
  if (elsewhere && need.exclude?.size) return { nodeId: elsewhere.node_id }
  const { exclude: _, ...anywhere } = need
  const { chosen, explain } = index.place(anywhere, Math.random)
  if (!chosen) return { why: inWords(explain()) }

  const { node_id: nodeId, warmth } = chosen
  const node = snapshots.find(({ node_id }) => node_id === nodeId)
  if (node?.sharing !== 'shared') return { nodeId }
  if (warmth === 'warm') return { nodeId, shared: 'warm' }
  const model = node.models.find(({ model_key }) => model_key === need.model_key)
  // A node that is loading the model already is joined there.
  return { nodeId, ...(model?.state === 'evicted' && { shared: 'cached' as const }) }
}

function inWords(verdicts: readonly Verdict[]): string {
  if (verdicts.length === 0) return 'no node is connected'
  const words = verdicts.map(({ node_id, reason }) => `node ${node_id} ${reason}`).join('; ')
  return words.length <= LONGEST_WHY ? words : `${words.slice(0, LONGEST_WHY)}…`
}
