import type { Client } from '@temporalio/client'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { type NativeConnection, Runtime, Worker, type WorkerOptions } from '@temporalio/worker'
import type { ControlDeps } from '../../../activities/control/deps.ts'
import { type ControlActivities, createControlActivities } from '../../../activities/control/index.ts'
import { findTemporalCli } from '../../../embedded/temporal/cli.ts'
import { readConfig } from '../../../platform/config.ts'
import { createLogger } from '../../../platform/log.ts'
import { SEARCH_ATTRIBUTES } from '../../../platform/temporal.ts'
import { workflowBundle } from '../../../workers/bundle.ts'
import { temporalLogger } from '../../../workers/temporal-logger.ts'
import { QUEUES } from '../../../workflows/contract/policy.ts'

/** A Temporal server for one test file. */
export interface TestTemporal extends AsyncDisposable {
  readonly address: string
  readonly client: Client
  readonly connection: NativeConnection
}

let isQuiet = false

/** Silences the SDK's own log; this must happen once per process, before any other use of the SDK. */
export function quietRuntime(): void {
  if (!isQuiet) Runtime.install({ logger: temporalLogger(createLogger('temporal', 'silent')) })
  isQuiet = true
}

/** Starts a real Temporal development server with the platform's search attributes. */
export async function startTemporal(
  options: { port?: number; extraArgs?: string[] } = {},
): Promise<TestTemporal> {
  const { HEARTH_CACHE_DIR: cache } = readConfig()
  quietRuntime()
  const path = process.env.HEARTH_TEST_TEMPORAL ?? (await findTemporalCli(cache, () => {}))
  const env = await TestWorkflowEnvironment.createLocal({
    server: {
      ...options,
      executable: { type: 'existing-path', path },
      searchAttributes: Object.values(SEARCH_ATTRIBUTES),
    },
  })
  return {
    address: env.address,
    client: env.client,
    connection: env.nativeConnection,
    [Symbol.asyncDispose]: () => env.teardown(),
  }
}

/** Runs every workflow and the control activities in this process until disposed; `wrap` may change activities. */
export async function startControlWorker(
  { connection }: TestTemporal,
  deps: ControlDeps,
  wrap: (activities: ControlActivities) => object = (activities) => activities,
): Promise<AsyncDisposable> {
  return runWorker({
    connection,
    taskQueue: QUEUES.control,
    workflowBundle: await workflowBundle(deps.config.HEARTH_CACHE_DIR),
    activities: wrap(createControlActivities(deps)),
  })
}

/** Runs a worker in this process until disposed. */
export async function runWorker(options: WorkerOptions): Promise<AsyncDisposable> {
  const worker = await Worker.create({
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    shutdownGraceTime: '1s',
    shutdownForceTime: '5s',
    ...options,
  })
  const running = worker.run()
  return {
    async [Symbol.asyncDispose]() {
      worker.shutdown()
      await running
    },
  }
}
