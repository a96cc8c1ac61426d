import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client'
import type { Kysely } from 'kysely'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../../db/tables.ts'
import type { WorkflowStartRow } from '../../../db/tables/accounts.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { searchAttributes } from '../../../platform/temporal.ts'
import { emit } from '../../events.ts'

/** The number of rows that one sweep claims; after a full batch the next sweep follows at once. */
const BATCH = 64
const SWEEP_INTERVAL_MS = 1_000
const RPC_TIMEOUT_MS = 4_000

export interface WorkflowOutbox extends AsyncDisposable {
  /** Starts enqueued workflows now rather than at the next sweep. Never throws. */
  poke: () => void
}

export interface WorkflowOutboxDeps {
  db: Kysely<Database>
  temporal: Client
  log: Logger
}

interface Sweep extends WorkflowOutboxDeps {
  signal: AbortSignal
}

/**
 * Starts the workflows enqueued in `workflow_start`: at once when poked, otherwise within a second, with retries until
 * Temporal accepts them. Several gateways may sweep: each claims a row by postponing its next attempt, so a crash only
 * delays the start.
 */
export function openWorkflowOutbox({ db, temporal, log }: WorkflowOutboxDeps): WorkflowOutbox {
  const closing = new AbortController()
  const sweep = async () => {
    let isFull = true
    while (isFull && !closing.signal.aborted)
      isFull = (await startBatch({ db, temporal, log, signal: closing.signal })) === BATCH
  }
  const loop = new BackgroundLoop(sweep, {
    everyMs: SWEEP_INTERVAL_MS,
    onError: (err) => emit(log, 'outbox.read_failed', { err }),
  }).start()

  return {
    poke: () => void loop.run(),
    async [Symbol.asyncDispose]() {
      closing.abort()
      await loop[Symbol.asyncDispose]()
    },
  }
}

async function startBatch(sweep: Sweep): Promise<number> {
  const { db, log } = sweep
  const rows = await workflowStartRepository.claimDueStarts(db, BATCH)
  const started: WorkflowStartRow[] = []
  let failure: string | undefined
  await Promise.all(
    rows.map(async (row) => {
      try {
        await start(sweep, row)
        started.push(row)
      } catch (err) {
        if (err instanceof WorkflowExecutionAlreadyStartedError) {
          started.push(row)
          return
        }
        failure = err instanceof Error ? err.message : 'unknown'
        await workflowStartRepository.deferStart(db, row)
      }
    }),
  )
  await workflowStartRepository.removeStarts(db, started)
  if (failure !== undefined) {
    const waiting = rows.length - started.length
    emit(log, 'outbox.start_failed', { reason: failure.split('\n')[0], waiting })
  }
  return rows.length
}

/** A closed workflow may be started again under its id; guards in SQL decide whether any work remains. */
async function start({ temporal, signal }: Sweep, row: WorkflowStartRow): Promise<void> {
  const { search, summary, priority, fairnessKey, signal: message } = row.options ?? {}
  const limited = AbortSignal.any([signal, AbortSignal.timeout(RPC_TIMEOUT_MS)])
  const options = {
    workflowId: row.workflow_id,
    taskQueue: row.task_queue,
    args: row.args,
    ...(search && { typedSearchAttributes: searchAttributes(search) }),
    ...(summary && { staticSummary: summary }),
    ...((priority !== undefined || fairnessKey !== undefined) && {
      priority: {
        ...(priority !== undefined && { priorityKey: priority }),
        ...(fairnessKey !== undefined && { fairnessKey }),
      },
    }),
  }
  await temporal.withAbortSignal<unknown>(limited, () =>
    message === undefined
      ? temporal.workflow.start(row.workflow, options)
      : temporal.workflow.signalWithStart(row.workflow, { ...options, signal: message }),
  )
}
