import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { Worker } from '@temporalio/worker'
import { readConfig } from '../../../platform/config.ts'
import { workflowBundle } from '../../../workers/bundle.ts'
import { quietRuntime } from './temporal.ts'

/** A Temporal server whose clock skips to the next timer, so that two days of waiting pass at once. */
export interface SkippingTemporal extends AsyncDisposable {
  /** Runs one workflow to its end with the given activities. */
  run(workflow: string, input: unknown[], activities: object): Promise<unknown>
  /** The server's clock, in epoch milliseconds. */
  now(): Promise<number>
}

/** Longer than any test workflow takes. */
const MAX_WORKFLOW_TIME = '20 days'

/** Starts the server, or returns why this machine has none. */
export async function startSkippingTemporal(): Promise<SkippingTemporal | { missing: string }> {
  const { HEARTH_CACHE_DIR: cache } = readConfig()
  const { HEARTH_TEST_TEMPORAL_TIME_SKIPPING: given, HEARTH_TEST_TEMPORAL_TIME_SKIPPING_MISSING: why } =
    process.env
  const path = given ?? join(cache, 'temporal-test-server-1.38.0', 'temporal-test-server')
  if (!existsSync(path))
    return { missing: `no time-skipping Temporal server (${why ?? 'npm test fetches it'})` }

  quietRuntime()
  const env = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  })
  let runs = 0
  return {
    now: () => env.currentTimeMs(),
    async run(workflow, input, activities) {
      const taskQueue = `time-${++runs}`
      const worker = await Worker.create({
        connection: env.nativeConnection,
        taskQueue,
        workflowBundle: await workflowBundle(cache),
        activities,
      })
      return worker.runUntil(
        env.client.workflow.execute(workflow, {
          workflowId: taskQueue,
          taskQueue,
          args: input,
          // After the workflow ends, the server may skip to this timeout before the clock stops. The default is ten
          // years.
          workflowExecutionTimeout: MAX_WORKFLOW_TIME,
        }),
      )
    },
    [Symbol.asyncDispose]: () => env.teardown(),
  }
}
