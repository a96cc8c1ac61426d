import { type Client, type WorkflowExecutionStatusName, WorkflowNotFoundError } from '@temporalio/client'
import type { Kysely } from 'kysely'
import * as invocationRepository from '../../../db/repositories/actions/invocations.ts'
import { endCohort } from '../../../db/repositories/cohorts/endings.ts'
import * as structuredRunRepository from '../../../db/repositories/cohorts/structured-runs.ts'
import * as candidateTestRepository from '../../../db/repositories/models/candidate-tests.ts'
import * as versionLifecycleRepository from '../../../db/repositories/models/version-lifecycle.ts'
import * as killSwitchRepository from '../../../db/repositories/platform/kill-switch.ts'
import * as openWorkRepository from '../../../db/repositories/platform/open-work.ts'
import type { OpenJob, OpenTask } from '../../../db/repositories/platform/open-work.ts'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import type { WorkflowStart } from '../../../db/repositories/platform/workflow-starts.ts'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import * as jobEndingRepository from '../../../db/repositories/training/endings.ts'
import * as deliveryRepository from '../../../db/repositories/webhooks/deliveries.ts'
import * as deliveryEndingRepository from '../../../db/repositories/webhooks/endings.ts'
import type { Database } from '../../../db/tables.ts'
import { evaluationFolder } from '../../../domain/object-keys.ts'
import { type OrphanAction, orphanedTest, orphanOf } from '../../../domain/orphan.ts'
import { PRIORITY } from '../../../domain/training/training-run.ts'
import { searchAttributes } from '../../../platform/temporal.ts'
import { activateKillSwitch, deactivateKillSwitch } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import {
  candidateTestStart,
  cohortRunStart,
  coldInferenceStart,
  killSwitchStart,
  mergeStart,
  structuredEvaluationStart,
  trainingRunStart,
  webhookDeliveryStart,
} from '../../../workflows/contract/starts.ts'
import { removeCohortFiles } from '../cohorts/cohort-files.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'

/** The number of rows that one step examines. */
const BATCH = 100
const AT_ONCE = 10
const RPC_TIMEOUT_MS = 3_000

/** The result of a step. `next` is the position of the following step, null at the end. */
export interface ReconcileResult {
  next: string | null
  ended: number
  restarted: number
  /** The number of rows that couldn't be reconciled. A failed row doesn't stop the others. */
  failed: number
}

export const createReconcileActivities = ({ db, temporal, objects, log, now }: ControlDeps) => ({
  /**
   * Ends or restarts runs without a workflow. Safe to repeat because a run ends once, and starting a workflow that is
   * already running has no effect.
   */
  async reconcileJobs(after: string | null): Promise<ReconcileResult> {
    const jobs = await openWorkRepository.openJobs(db, { after, limit: BATCH })
    return sweep({ temporal, log }, jobs, {
      workflowId: WORKFLOW_ID.job,
      end: ({ id }, { status, reason }) =>
        db
          .transaction()
          .execute((trx) =>
            jobEndingRepository.endRun(trx, id, { status, errorMessage: `${reason} of this run` }, now()),
          ),
      restart: (job) => enqueueStart(db, startOfJob(job)),
    })
  },

  /**
   * Like `reconcileJobs`, but for tasks that a workflow owns; the reaper handles tasks that a gateway owns. Safe to
   * repeat for the same reason.
   */
  async reconcileTasks(after: string | null): Promise<ReconcileResult> {
    const tasks = await openWorkRepository.openTasks(db, { after, limit: BATCH })
    return sweep({ temporal, log }, tasks, {
      workflowId: WORKFLOW_ID.task,
      end: ({ id }, { status, reason }) => {
        const error = status === 'cancelled' ? 'the task was cancelled' : `${reason} of this task`
        return db
          .transaction()
          .execute((trx) => taskRepository.endTask(trx, id, { status: 'failed', error }, now()))
      },
      restart: (task) => enqueueStart(db, startOfTask(task)),
    })
  },

  /**
   * Like `reconcileJobs`, but for deliveries between two attempts. If an operator ended a delivery's workflow, the
   * delivery is cancelled. Safe to repeat because a delivery ends once.
   */
  async reconcileDeliveries(after: string | null): Promise<ReconcileResult> {
    return sweep({ temporal, log }, await deliveryRepository.waitingDeliveries(db, { after, limit: BATCH }), {
      workflowId: WORKFLOW_ID.delivery,
      end: ({ id }) => deliveryEndingRepository.endDelivery(db, id, 'cancelled', now()),
      restart: ({ id, account_id: accountId }) =>
        enqueueStart(db, webhookDeliveryStart({ deliveryId: id, accountId })),
    })
  },

  /**
   * Restarts a candidate's test once if its workflow ended without a verdict; the second time, the test counts as
   * failed. Safe to repeat because a test is restarted only if the number of tests has not changed.
   */
  async reconcileCandidates(after: string | null): Promise<ReconcileResult> {
    return sweep(
      { temporal, log },
      await candidateTestRepository.candidatesInTest(db, { after, limit: BATCH }),
      {
        workflowId: WORKFLOW_ID.candidateTest,
        judge: (workflow, { tests }) => orphanedTest(workflow, tests),
        end: ({ id }, { reason }) =>
          db.transaction().execute((trx) =>
            versionLifecycleRepository.moveVersion(trx, id, {
              from: ['candidate'],
              to: 'candidate',
              note: reason,
              now: now(),
            }),
          ),
        restart: (candidate) =>
          db
            .transaction()
            .execute((trx) =>
              candidateTestRepository.enqueueNextTest(trx, candidate, candidateTestStart(candidate)),
            ),
      },
    )
  },

  /**
   * Like `reconcileJobs`, but for structured runs, then for cohorts. Safe to repeat because each ends once, and its rows
   * show what remains to be done.
   */
  async reconcileCohorts(after: string | null): Promise<ReconcileResult> {
    if (after === null) await sweepRuns({ db, temporal, objects, log })
    return sweep({ temporal, log }, await openWorkRepository.openCohorts(db, { after, limit: BATCH }), {
      workflowId: WORKFLOW_ID.cohort,
      end: async ({ id, account_id: accountId }, { status, reason }) => {
        const fault = { code: 'workflow_ended', message: `${reason} of this cohort` }
        await db
          .transaction()
          .execute((trx) => endCohort(trx, id, { status, fault }, now(), { isRecalled: true }))
        await removeCohortFiles({ db, objects }, { accountId, cohortId: id })
      },
      restart: (cohort) =>
        enqueueStart(
          db,
          cohortRunStart({
            cohortId: cohort.id,
            accountId: cohort.account_id,
            name: cohort.name ?? 'cohort',
            stages: cohort.stages,
            nodes: cohort.nodes,
            modelKey: cohort.model_key,
          }),
        ),
    })
  },

  /**
   * Closes expired leases, deletes the rows of dead gateways, and ends invocations that older versions left open. Safe
   * to repeat because the outcome depends only on the rows.
   */
  async tidyLeases(): Promise<{ leases: number; gateways: number; invocations: number }> {
    return {
      leases: await openWorkRepository.expireLeases(db, 1_000),
      gateways: await openWorkRepository.removeDeadGateways(db),
      invocations: await invocationRepository.endFinishedInvocations(db, 1_000),
    }
  },

  /**
   * Makes sure that the kill switch workflow is running and has been signaled for this version of the row. Returns the
   * version. Safe to repeat because a signaled workflow only reads the row. (We can't query the workflow's state
   * instead: if its worker is shutting down, the query would block on that worker.)
   */
  async remindKillSwitch(notified: number | null): Promise<number> {
    const row = await killSwitchRepository.readKillSwitch(db)
    const status = await workflowStatus(temporal, WORKFLOW_ID.killSwitch)
    if (status === 'RUNNING' && row.version === notified) return row.version
    const { workflow, workflowId, taskQueue, args, options } = killSwitchStart
    await within(temporal, () =>
      temporal.workflow.signalWithStart(workflow, {
        workflowId,
        taskQueue,
        args,
        staticSummary: options.summary,
        typedSearchAttributes: searchAttributes(options.search),
        signal: row.active ? activateKillSwitch : deactivateKillSwitch,
        signalArgs: [{ reason: row.reason ?? '', actor: row.actor ?? '', version: row.version }],
      }),
    )
    return row.version
  },
})

const enqueueStart = (db: Kysely<Database>, start: WorkflowStart): Promise<void> =>
  db.transaction().execute((trx) => workflowStartRepository.enqueueWorkflow(trx, start))

const startOfJob = (job: OpenJob): WorkflowStart =>
  (job.job_type === 'merge' ? mergeStart : trainingRunStart)({
    jobId: job.id,
    accountId: job.account_id,
    modelConfigId: job.model_config_id,
    jobName: job.job_name,
    priority: PRIORITY[job.operating_mode],
  })

const startOfTask = (task: OpenTask): WorkflowStart =>
  coldInferenceStart({ taskId: task.id, accountId: task.account_id, modelKey: task.model_key })

interface Sweep<Row> {
  workflowId: (id: string) => string
  /** Decides what to do with a row based on its workflow's status; defaults to `orphanOf`. */
  judge?: (workflow: string, row: Row) => OrphanAction | undefined
  end: (row: Row, orphan: Extract<OrphanAction, { status: string }>) => Promise<unknown>
  restart: (row: Row) => Promise<unknown>
}

async function sweep<Row extends { id: string }>(
  { temporal, log }: Pick<ControlDeps, 'temporal' | 'log'>,
  rows: readonly Row[],
  { workflowId, judge = orphanOf, end, restart }: Sweep<Row>,
): Promise<ReconcileResult> {
  const next = rows.length === BATCH ? (rows.at(-1)?.id ?? null) : null
  const swept: ReconcileResult = { next, ended: 0, restarted: 0, failed: 0 }
  const running = await runningAmong(
    { temporal, log },
    rows.map(({ id }) => workflowId(id)),
  )
  const suspects = rows.filter(({ id }) => !running.has(workflowId(id)))
  const settle = async (row: Row) => {
    const orphan = judge(await workflowStatus(temporal, workflowId(row.id)), row)
    if (orphan === undefined) return
    await (orphan === 'restart' ? restart(row) : end(row, orphan))
    swept[orphan === 'restart' ? 'restarted' : 'ended']++
    emit(log, 'workflow.orphan_settled', { workflow_id: workflowId(row.id), orphan })
  }
  for (let at = 0; at < suspects.length; at += AT_ONCE) {
    const settled = suspects.slice(at, at + AT_ONCE).map((row) =>
      settle(row).catch((err: unknown) => {
        swept.failed++
        emit(log, 'workflow.orphan_settle_failed', { err, workflow_id: workflowId(row.id) })
      }),
    )
    await Promise.all(settled)
  }
  return swept
}

/** Reconciles the oldest structured runs; there are only a few. */
async function sweepRuns({
  db,
  temporal,
  objects,
  log,
}: Pick<ControlDeps, 'db' | 'temporal' | 'objects' | 'log'>): Promise<void> {
  await sweep({ temporal, log }, await structuredRunRepository.openRuns(db, BATCH), {
    workflowId: WORKFLOW_ID.evaluation,
    end: async ({ id }, { status }) => {
      const code = status === 'cancelled' ? 'cancelled' : 'workflow_ended'
      await structuredRunRepository.endRun(db, id, { status: 'failed', reasons: [code] })
      await objects.deletePrefix(evaluationFolder(id))
    },
    restart: ({ id, account_id }) =>
      enqueueStart(db, structuredEvaluationStart({ runId: id, accountId: account_id })),
  })
}

/**
 * Lists which of these workflows are running, with one query to Temporal's index. A workflow that ended a moment ago
 * may still be listed; the next pass catches it. The caller then describes each workflow that is not listed.
 */
async function runningAmong(
  { temporal, log }: Pick<ControlDeps, 'temporal' | 'log'>,
  workflowIds: readonly string[],
): Promise<Set<string>> {
  if (workflowIds.length === 0) return new Set()
  const listed = workflowIds.map((id) => `'${id}'`).join()
  const query = `ExecutionStatus = 'Running' AND WorkflowId IN (${listed})`
  const running = new Set<string>()
  try {
    await within(temporal, async () => {
      for await (const { workflowId } of temporal.workflow.list({ query, pageSize: BATCH }))
        running.add(workflowId)
    })
  } catch (err) {
    emit(log, 'workflow.list_failed', { err })
  }
  return running
}

const within = <T>(temporal: Client, call: () => Promise<T>): Promise<T> =>
  temporal.withDeadline(Date.now() + RPC_TIMEOUT_MS, call)

async function workflowStatus(
  temporal: Client,
  workflowId: string,
): Promise<WorkflowExecutionStatusName | 'MISSING'> {
  try {
    const { status } = await within(temporal, () => temporal.workflow.getHandle(workflowId).describe())
    return status.name
  } catch (err) {
    if (err instanceof WorkflowNotFoundError) return 'MISSING'
    throw err
  }
}
