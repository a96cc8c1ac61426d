import { type Client, ScheduleNotFoundError } from '@temporalio/client'
import type { Logger } from '../platform/log.ts'
import { searchAttributes } from '../platform/temporal.ts'
import { housekeepingStarts, killSwitchStart, webhookDispatchStart } from '../workflows/contract/starts.ts'
import { emit } from './control/events.ts'

/** The schedules with which earlier versions started a workflow for each housekeeping pass. */
const FORMER_SCHEDULES = ['reconcile', 'retention']

/**
 * Ensures that the permanent workflows are running: kill switch, housekeeping and first attempts. Safe to repeat from
 * any worker.
 */
export async function ensureSchedules(
  temporal: Client,
  log: Logger,
  { hasWebhooks }: { hasWebhooks: boolean },
): Promise<void> {
  const starts = [killSwitchStart, ...housekeepingStarts, ...(hasWebhooks ? [webhookDispatchStart] : [])]
  for (const { workflow, workflowId, taskQueue, args, options } of starts) {
    await temporal.workflow.start(workflow, {
      workflowId,
      taskQueue,
      args: [...args],
      workflowIdConflictPolicy: 'USE_EXISTING',
      staticSummary: options.summary,
      typedSearchAttributes: searchAttributes(options.search),
    })
  }
  for (const name of FORMER_SCHEDULES) await removeSchedule(temporal, name)
  emit(log, 'worker.schedules_started', { workflows: starts.map((each) => each.workflowId) })
}

async function removeSchedule(temporal: Client, name: string): Promise<void> {
  try {
    await temporal.schedule.getHandle(name).delete()
  } catch (err) {
    if (!(err instanceof ScheduleNotFoundError)) throw err
  }
}
