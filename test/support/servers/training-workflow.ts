import type { WorkflowHandle } from '@temporalio/client'
import type { ControlActivities } from '../../../activities/control/index.ts'
import type { TrainInput } from '../../../activities/node/jobs/train.ts'
import { QUEUES, WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import type { TestApi } from './api.ts'
import { startGatedApi } from './gate.ts'
import { runWorker, startControlWorker, startTemporal, type TestTemporal } from './temporal.ts'

type Train = (input: TrainInput) => Promise<void>

/** A gateway, Temporal and the queues between them; each test defines what a node does. */
export interface TrainingWorld extends AsyncDisposable {
  readonly api: TestApi
  readonly temporal: TestTemporal
  /** Runs the control worker and a node with this `train` activity, until disposed. */
  work(train: Train, wrap?: (activities: ControlActivities) => object): Promise<AsyncDisposable>
  workflow(jobId: string): WorkflowHandle
}

export async function startTrainingWorld(env: NodeJS.ProcessEnv = {}): Promise<TrainingWorld> {
  await using stack = new AsyncDisposableStack()
  const temporal = stack.use(await startTemporal())
  const { api } = await startGatedApi(stack, temporal, { env })
  const opened = stack.move()
  return {
    api,
    temporal,
    async work(train, wrap) {
      await using workers = new AsyncDisposableStack()
      workers.use(await startControlWorker(temporal, api.services, wrap))
      workers.use(
        await runWorker({
          connection: temporal.connection,
          taskQueue: QUEUES.train('cpu'),
          activities: { train },
          shutdownGraceTime: '100ms',
        }),
      )
      const moved = workers.move()
      return { [Symbol.asyncDispose]: () => moved.disposeAsync() }
    },
    workflow: (jobId) => temporal.client.workflow.getHandle(WORKFLOW_ID.job(jobId)),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Starts the same world with a running control worker and without nodes: tests start real ones. */
export async function startControlOnly(
  env: NodeJS.ProcessEnv = {},
): Promise<{ world: TrainingWorld; control: AsyncDisposable }> {
  const world = await startTrainingWorld(env)
  return { world, control: await startControlWorker(world.temporal, world.api.services) }
}
