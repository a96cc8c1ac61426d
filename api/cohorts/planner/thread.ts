import { parentPort } from 'node:worker_threads'
import { cheapestAble } from '../../../domain/cohorts/objective.ts'
import { planGraph } from '../../../domain/cohorts/plan-graph.ts'
import type { TaskReply } from '../../../platform/async/task-thread.ts'
import type { PlannerResult, PlannerTask } from './planner.ts'

// The worker thread that plans graphs for the gateway.
parentPort?.on('message', (task: PlannerTask) => {
  parentPort?.postMessage(attempt(task))
})

function attempt(task: PlannerTask): TaskReply<PlannerResult> {
  try {
    return { answer: task.kind === 'plan' ? planGraph(task.input) : cheapestAble(task.input) }
  } catch (err) {
    return { error: err instanceof Error ? err.message : String(err) }
  }
}
