import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import { type Kysely, sql } from 'kysely'
import { request } from 'undici'
import type { Database } from '../db/tables.ts'
import type { Invocation } from '../schemas/action.ts'
import { type Inbox, undelivered } from '../test/faults/deliveries.ts'
import { checkBooks } from '../test/faults/work.ts'
import { checkCohorts } from './chaos-cohorts.ts'
import type { Customer } from './chaos-customer.ts'
import { checkFullTimes, type Refusal } from './chaos-disk.ts'
import { checkKeyed } from './chaos-keyed.ts'
import { type Kill, modelServers, trainers } from './chaos-kills.ts'
import type { Tally } from './chaos-tally.ts'
import { checkToolCall } from './chaos-tools.ts'

export interface Evidence {
  customers: readonly Customer[]
  db: Kysely<Database>
  temporal: Client
  inbox: Inbox
  dataDir: string
  kills: readonly Kill[]
  /** The responses to uploads while the object store was full. */
  refusals: readonly Refusal[]
  tally: Tally
}

/** The work of a disconnected client may have been settled by a gateway that died right afterwards. */
const AROUND_A_KILL_MS = 5_000
/** The error of a run on a text table; no other run may fail. */
const OWN_FAILURE = /numbers|number|cannot be trained|numeric/i
const AT_ONCE = 4
const LAST_STEPS_TIMEOUT_MS = 60_000

/** Returns counts of open work by name; an empty object once all work has ended. */
export async function openWork({ db, dataDir }: Evidence): Promise<Record<string, number>> {
  const { rows } = await sql<{ what: string; n: number }>`
    select 'tasks' as what, count(*)::int as n from task where status not in ('succeeded', 'failed')
    union all select 'cohorts', count(*)::int from cohort where status not in ('succeeded', 'failed', 'cancelled')
    union all select 'invocations', count(*)::int from invocation where not ended
    union all select 'runs', count(*)::int from training_run where status in ('pending', 'running')
    union all select 'leases', count(*)::int from lease where state = 'active'
    union all select 'workflow starts', count(*)::int from workflow_start
    union all select 'ingests', count(*)::int from dataset_upload where status = 'ingesting'
    union all select 'candidates in test', count(*)::int from model_version
      where lifecycle_status = 'candidate' and lifecycle_note is null and tests > 0
  `.execute(db)
  const counts = [
    ...rows,
    { what: 'deliveries', n: (await undelivered(db)).length },
    { what: 'trainers', n: trainers(dataDir).length },
  ]
  return Object.fromEntries(counts.filter(({ n }) => n > 0).map(({ what, n }) => [what, n]))
}

/** Runs every check after all work has ended; adds violations to the tally. */
export async function checkAll(evidence: Evidence): Promise<void> {
  for (const customer of evidence.customers) {
    await checkTasks(evidence, customer)
    await checkChats(evidence, customer)
    await checkRuns(evidence, customer)
    await checkDatasets(evidence, customer)
    await checkToolCalls(evidence, customer)
    await checkKeyed(evidence.db, evidence.tally, customer)
  }
  await checkCohorts(evidence.db, evidence.tally, evidence)
  await checkFullTimes(evidence.db, evidence.tally, evidence)
  checkDeadlocks(evidence)
  await checkLedger(evidence)
  await checkEvents(evidence)
  await checkDeliveries(evidence)
  await checkNothingOpen(evidence)
}

/** Reads each resource over the API; a returned id that can't be read counts as lost. */
async function readEach<T>(
  { tally }: Evidence,
  { platform, name }: Customer,
  paths: readonly string[],
): Promise<Map<string, T>> {
  const found = new Map<string, T>()
  await inTurn(paths, async (path) => {
    try {
      found.set(path, await platform.api.get<T>(path))
    } catch (err) {
      tally.violation('nothing is lost', `${name} ${path}: ${(err as Error).message}`)
    }
  })
  return found
}

async function checkTasks(evidence: Evidence, customer: Customer): Promise<void> {
  const { tally } = evidence
  const paths = customer.tasks.map(({ taskId }) => `/tasks/${taskId}`)
  const found = await readEach<{ status: string; error?: string | null }>(evidence, customer, paths)
  for (const { taskId, kind, reported } of customer.tasks) {
    const task = found.get(`/tasks/${taskId}`)
    if (!task) continue
    if (reported !== undefined && reported !== task.status) {
      tally.violation(
        'a reported terminal status never changes',
        `task ${taskId} was reported as ${reported} but is now ${task.status}`,
      )
    }
    // A request whose client waits for the response ends with its gateway; a queued one doesn't.
    if (kind === 'later' && task.status !== 'succeeded') {
      tally.violation('queued tasks succeed', `task ${taskId} is ${task.status}: ${task.error}`)
    }
  }
}

async function checkChats({ db, kills, tally }: Evidence, { chats }: Customer): Promise<void> {
  const ids = chats.flatMap(({ taskId }) => taskId ?? [])
  const rows = await db.selectFrom('task').select(['id', 'status', 'error']).where('id', 'in', ids).execute()
  const tasks = new Map(rows.map((row) => [row.id, row]))
  for (const { taskId, kind, end, errorText, began, ended } of chats) {
    const killed = kills.some(({ at }) => at > began - 60_000 && at < ended + AROUND_A_KILL_MS)
    if (end !== 'whole' && !killed) {
      tally.violation('chats fail only around a kill', `${kind} ${taskId} ${end}: ${errorText}`)
    }
    if (taskId === undefined) continue
    const status = tasks.get(taskId)?.status
    const what = `${kind} chat ${taskId} ended as ${end} but is now ${status}`
    const gatewayDied = kills.some(
      ({ prey, at }) => prey === 'api' && Math.abs(at - ended) < AROUND_A_KILL_MS,
    )
    if (status === undefined) tally.violation('nothing is lost', what)
    else if (end === 'whole' && status !== 'succeeded' && !(kind === 'stream' && gatewayDied)) {
      // A stream's row is closed after its last byte. If its gateway dies, the row fails and the chat is not charged.
      tally.violation('a reported terminal status never changes', what)
    } else if (end !== 'whole' && status === 'succeeded' && !(end === 'cut' && gatewayDied)) {
      tally.violation('a reported terminal status never changes', what)
    }
  }
}

interface RunRead {
  status: string
  error_message: string | null
}

interface Artifacts {
  artifacts: { filename: string; size_bytes: number }[]
}

async function checkRuns(evidence: Evidence, customer: Customer): Promise<void> {
  const { db, tally } = evidence
  const { api, ready } = customer.platform
  const paths = customer.runs.map(({ id }) => `/training/runs/${id}`)
  const found = await readEach<RunRead>(evidence, customer, paths)
  for (const { id, kind, reported, cancel } of customer.runs) {
    const run = found.get(`/training/runs/${id}`)
    if (!run) continue
    const what = `run ${id} (${kind}) is ${run.status}: ${run.error_message ?? ''}`
    if (reported !== undefined && reported !== run.status)
      tally.violation('a reported terminal status never changes', `${what}, was ${reported}`)
    if (cancel === 'answered' && run.status !== 'cancelled')
      tally.violation('a cancelled run stays cancelled', what)
    if (run.status === 'cancelled' && cancel === undefined)
      tally.violation('runs are cancelled only on request', what)
    if (run.status === 'failed' && !(kind === 'doomed' && OWN_FAILURE.test(run.error_message ?? '')))
      tally.violation('doomed runs fail, and no others', what)
    if (run.status === 'completed' && kind === 'doomed')
      tally.violation('doomed runs fail, and no others', what)
  }
  const completed = customer.runs.filter(
    ({ id }) => found.get(`/training/runs/${id}`)?.status === 'completed',
  )
  await inTurn(completed, async ({ id }) => {
    const { artifacts } = await api.get<Artifacts>(`/training/runs/${id}/artifacts`)
    if (artifacts.length === 0) tally.violation('artifacts can be downloaded', `run ${id} has no artifacts`)
    const { download_urls: urls } = await api.get<{
      download_urls: { filename: string; download_url: string }[]
    }>(`/training/runs/${id}/artifacts/download-urls`)
    for (const { filename, size_bytes } of artifacts) {
      const url = urls.find((each) => each.filename === filename)?.download_url
      const answer = url && (await request(url))
      const bytes = answer ? (await answer.body.arrayBuffer()).byteLength : undefined
      if (!answer || answer.statusCode !== 200 || bytes !== size_bytes) {
        const got = `${answer ? answer.statusCode : 'no URL'}, ${bytes} bytes instead of ${size_bytes}`
        tally.violation('artifacts can be downloaded', `run ${id} ${filename}: ${got}`)
      }
    }
  })
  const { n } = await db
    .selectFrom('training_run')
    .select((eb) => eb.fn.countAll<string>().as('n'))
    .where('account_id', '=', ready.account_id)
    .where('job_name', 'like', 'chaos-%')
    .executeTakeFirstOrThrow()
  if (Number(n) !== customer.runs.length) {
    tally.violation('an idempotency key creates one run', `${n} runs for ${customer.runs.length} keys`)
  }
}

async function checkDatasets(evidence: Evidence, customer: Customer): Promise<void> {
  const paths = customer.datasets.map(({ datasetId }) => `/datasets/${datasetId}`)
  const found = await readEach<{ status: string; num_samples: number }>(evidence, customer, paths)
  for (const { datasetId, rows } of customer.datasets) {
    const dataset = found.get(`/datasets/${datasetId}`)
    if (dataset && (dataset.status !== 'ready' || dataset.num_samples !== rows)) {
      const what = `${datasetId} is ${dataset.status} with ${dataset.num_samples} of ${rows} rows`
      evidence.tally.violation('committed datasets are ready', what)
    }
  }
}

async function checkToolCalls(evidence: Evidence, customer: Customer): Promise<void> {
  const paths = customer.toolCalls.map(({ invocationId }) => `/invocations/${invocationId}`)
  const found = await readEach<Invocation>(evidence, customer, paths)
  for (const call of customer.toolCalls) {
    const invocation = found.get(`/invocations/${call.invocationId}`)
    if (invocation) checkToolCall(evidence.tally, call, invocation)
  }
}

function checkDeadlocks({ dataDir, tally }: Evidence): void {
  const log = readFileSync(join(dataDir, 'logs', 'postgres.log'), 'utf8')
  for (const line of log.split('\n').filter((each) => each.includes('deadlock detected')))
    tally.violation('no two transactions deadlock', line)
}

/** Checks the ledger of every task, whether or not a client got its id. */
async function checkLedger({ db, customers, tally }: Evidence): Promise<void> {
  const [customer] = customers
  if (!customer) return
  // Tools and whole cohorts have no price; cohort stages are checked separately.
  const tasks = await db.selectFrom('task').select('id').where('price_micro', '>', 0).execute()
  const free = await db
    .selectFrom('ledger_line')
    .innerJoin('task', 'task.id', 'ledger_line.task_id')
    .select('task.id')
    .distinct()
    .where('task.price_micro', '=', 0)
    .where('ledger_line.amount_micro', '<>', 0)
    .execute()
  for (const { id } of free) tally.violation('free tasks are not charged', `task ${id}`)
  await inTurn(tasks, async ({ id }) => {
    await checkBooks(customer.platform, id).catch((err: unknown) => {
      tally.violation("a task's ledger entries balance and are written once", (err as Error).message)
    })
  })
  const { rows } = await sql<{ purse: string; sum: string }>`
    select purse, sum(amount_micro) as sum from ledger_line where purse like 'escrow%' group by purse
    having sum(amount_micro) <> 0`.execute(db)
  for (const { purse, sum } of rows) tally.violation('nothing stays in escrow', `${purse} holds ${sum} micro`)
}

/** Checks that each task and run has one terminal event that matches its outcome. */
async function checkEvents({ db, tally }: Evidence): Promise<void> {
  const { rows } = await sql<{ id: string; expected: string; found: string[] | null }>`
    with ended as (
      select id, 'inference.task.' || status as expected from task
      union all select id, 'training.run.' || status from training_run
      union all select invocation.id, 'invocation.' || case task.status when 'succeeded' then 'completed' else 'failed' end
        from invocation join task on task.id = invocation.task_id
    )
    select ended.id, ended.expected, array_agg(event.type) filter (where event.id is not null) as found
    from ended left join event on event.resource_id = ended.id
    group by ended.id, ended.expected
    having array_agg(event.type) is distinct from array[ended.expected]`.execute(db)
  for (const { id, expected, found } of rows) {
    tally.violation('one terminal event', `${id}: ${found?.join(', ') ?? 'none'} instead of ${expected}`)
  }
}

async function checkDeliveries({ db, customers, inbox, tally }: Evidence): Promise<void> {
  for (const { name, platform } of customers) {
    const events = await db
      .selectFrom('event')
      .innerJoin('webhook_endpoint', 'webhook_endpoint.account_id', 'event.account_id')
      .select(['event.id', 'event.type'])
      .where('event.account_id', '=', platform.ready.account_id)
      .whereRef('event.created_at', '>', 'webhook_endpoint.active_since')
      // Webhooks cannot subscribe to it.
      .where('event.type', '!=', 'endpoint.scaled')
      .execute()
    const ids = new Set(events.map(({ id }) => id))
    for (const { id, type } of events) {
      const got = inbox.received.get(id)
      if (!got) tally.violation('each event is delivered', `${type} ${id} of ${name}`)
      else if (got.bodies.size !== 1)
        tally.violation('every delivery of an event has the same body', `${type} ${id}`)
      else if (!(got.paths.size === 1 && got.paths.has(`/${name}`)))
        tally.violation(
          'events go to their account',
          `${type} ${id} of ${name} was delivered to ${[...got.paths].join()}`,
        )
    }
    for (const [id, { paths }] of inbox.received) {
      if (paths.has(`/${name}`) && !ids.has(id))
        tally.violation('only stored events are delivered', `${id} came to ${name}`)
    }
  }
}

async function checkNothingOpen(evidence: Evidence): Promise<void> {
  const { temporal, tally, dataDir } = evidence
  for (const [what, n] of Object.entries(await openWork(evidence)))
    tally.violation('nothing is left open', `${n} ${what}`)
  for (const workflowId of await openWorkflows(temporal))
    tally.violation('nothing is left open', `workflow ${workflowId}`)
  const servers = Map.groupBy(modelServers(dataDir), ({ modelKey }) => modelKey)
  for (const [modelKey, { length }] of servers)
    if (length > 1) tally.violation('no process is left behind', `${length} servers of ${modelKey}`)
}

/**
 * Returns workflows that are still running although their resource has ended. The last steps and the visibility index
 * may need a moment.
 */
async function openWorkflows(temporal: Client): Promise<string[]> {
  const until = Date.now() + LAST_STEPS_TIMEOUT_MS
  for (;;) {
    const open: string[] = []
    const query = `ExecutionStatus = 'Running'`
    for await (const { workflowId } of temporal.workflow.list({ query }))
      if (/^(task|job|dataset|version|delivery|cohort)\//.test(workflowId)) open.push(workflowId)
    if (open.length === 0 || Date.now() > until) return open
    await sleep(1_000)
  }
}

/** Processes a few items at a time, so that thousands of reads don't take minutes. */
async function inTurn<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const worker = async () => {
    for (const item of left) await act(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}
