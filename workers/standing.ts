import {
  type Client,
  ScheduleAlreadyRunning,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
} from '@temporalio/client'
import type { Logger } from '../platform/log.ts'
import { searchAttributes } from '../platform/temporal.ts'
import { QUEUES } from '../workflows/policy.ts'
import { killSwitchStart, webhookDispatchStart } from '../workflows/starts.ts'

/** What runs for ever beside the work: the kill switch and the housekeeping schedules. Safe to repeat from any worker. */
export async function ensureStanding(
  temporal: Client,
  log: Logger,
  { hasWebhooks }: { hasWebhooks: boolean },
): Promise<void> {
  for (const start of [killSwitchStart, ...(hasWebhooks ? [webhookDispatchStart] : [])]) {
    await temporal.workflow.start(start.workflow, {
      workflowId: start.workflowId,
      taskQueue: start.taskQueue,
      workflowIdConflictPolicy: 'USE_EXISTING',
      staticSummary: start.options.summary,
      typedSearchAttributes: searchAttributes(start.options.search),
    })
  }
  for (const options of SCHEDULES) await ensureSchedule(temporal, options)
  log.info({ schedules: SCHEDULES.map((each) => each.scheduleId) }, 'kill switch and schedules are in place')
}

const SCHEDULES = [
  schedule('reconcile', '15s', 'Finishes or restarts work whose workflow is gone'),
  schedule('retention', '5m', 'Removes what has outlived its time'),
]

function schedule(name: string, every: '15s' | '5m', summary: string) {
  return {
    scheduleId: name,
    spec: { intervals: [{ every }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
    action: {
      type: 'startWorkflow',
      workflowType: name,
      workflowId: name,
      taskQueue: QUEUES.control,
      args: [],
      workflowExecutionTimeout: '30m',
      staticSummary: summary,
      typedSearchAttributes: searchAttributes({ HearthKind: name }),
    },
  } as const satisfies ScheduleOptions
}

/** An existing schedule takes over what this version says and keeps whether an operator has paused it. */
async function ensureSchedule(temporal: Client, options: ScheduleOptions): Promise<void> {
  try {
    await temporal.schedule.create(options)
  } catch (err) {
    if (!(err instanceof ScheduleAlreadyRunning)) throw err
    const { spec, action } = options
    await temporal.schedule
      .getHandle(options.scheduleId)
      .update(({ policies, state }) => ({ spec, action, policies, state }))
  }
}
