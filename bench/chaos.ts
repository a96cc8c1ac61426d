import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { sql } from 'kysely'
import { AdminClient } from '../cli/admin-client.ts'
import { hearth } from '../client/index.ts'
import { openDatabase } from '../db/database.ts'
import { chatsAgain, databaseUrl, FAKE_LLM_ENV, importChatModel } from '../test/faults/chats.ts'
import { hurry, startInbox, verifiedEndpoint } from '../test/faults/deliveries.ts'
import { makeModel } from '../test/faults/work.ts'
import { regressionTable } from '../test/support/builders/tables.ts'
import { builderClient, uploadTable } from '../test/support/servers/clients/builder-client.ts'
import {
  dataDirectory,
  processesOn,
  startTestPlatform,
  type TestPlatform,
} from '../test/support/servers/platform.ts'
import { mountSmallDisk } from '../test/support/servers/small-disk.ts'
import { checkAll, type Evidence, openWork } from './chaos-checks.ts'
import { lookAfterCohorts } from './chaos-cohorts.ts'
import type { Customer } from './chaos-customer.ts'
import { countRoomWaits, DISK_MB, fillAndEmpty, putObjectsOn } from './chaos-disk.ts'
import { hunt, PREY } from './chaos-kills.ts'
import { randomFrom, Tally } from './chaos-tally.ts'
import { lookAfterRuns, startRun, work } from './chaos-work.ts'
import { unlessOnce } from './rounds.ts'

// Two accounts work while random processes are killed and the disk of the object store fills and empties. Then the
// bench checks that no work was lost, invented, charged twice or left behind: `chaos.ts [minutes] [seed]`.

const minutes = unlessOnce(Number(process.argv[2] ?? 20))
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 1e9))
/** After the last kill: the maximum time without progress on open work, and the time limit for all of it. */
const STALL_TIMEOUT_MS = 4 * 60_000
const TIMEOUT_MS = 30 * 60_000
const EVENT_TYPES = [
  ...['succeeded', 'failed'].map((end) => `inference.task.${end}`),
  ...['completed', 'failed', 'cancelled'].map((end) => `training.run.${end}`),
  ...['completed', 'failed'].map((end) => `invocation.${end}`),
]

const began = Date.now()
const printLine = (line: string) => {
  const seconds = Math.round((Date.now() - began) / 1000)
  process.stdout.write(`${String(seconds).padStart(5)} s  ${line}\n`)
}
printLine(`${minutes} minutes, seed ${seed}`)

using mounts = new DisposableStack()
const disk = mountSmallDisk(DISK_MB)
await using inbox = await startInbox()
using data = dataDirectory()
if ('missing' in disk) printLine(`the disk is never filled: ${disk.missing}`)
else putObjectsOn(mounts.use(disk), data.path)
await using platform = await startTestPlatform(data.path, {
  env: { ...FAKE_LLM_ENV, ...inbox.environment(data.path), HEARTH_RATE_LIMIT: '0', HEARTH_ADDRESS_RATE: '0' },
})
const tally = new Tally()
const customers = [await open('first', platform, 1), await open('second', await anotherAccount(), 2)]
await using db = openDatabase(databaseUrl(platform), { max: 4 })
printLine('at work')

const until = Date.now() + minutes * 60_000
const shift = { tally, until, patience: until + TIMEOUT_MS }
const working = Promise.all(
  customers.map((customer, index) => work(customer, shift, seed + index * 104_729, index === 0 ? 1 : 0.5)),
)
const [first] = customers
const filling =
  'missing' in disk || !first
    ? { full: [], refusals: [] }
    : fillAndEmpty(disk, first, {
        random: randomFrom(seed + 1),
        until,
        say: printLine,
        startRun: () => startRun(first, shift, 'short'),
      })
const kills = await hunt(platform, data.path, { random: randomFrom(seed), until, say: printLine })
const { full, refusals } = await filling
await working
printLine('no more work is started and no more processes are killed')

const connection = await Connection.connect({ address: platform.ready.temporal_address })
const temporal = new Client({ connection })
const evidence: Evidence = { customers, db, temporal, inbox, dataDir: data.path, kills, refusals, tally }
await settle()
for (const customer of customers) await lookAfter(customer)
await checkAll(evidence)
const ended = await endsByKind()
const roomWaits = await countRoomWaits(db)
await connection.close()
if (platform.supervisor.exitCode !== null || platform.supervisor.signalCode !== null)
  tally.violation('the platform stays up by itself', 'its supervisor has exited')
await platform.stop()
for (const { pid, command } of processesOn(data.path))
  tally.violation('no process is left behind', `${pid} ${command}`)
report()
process.exitCode = tally.violations.length > 0 ? 1 : 0

/** Waits until all work has ended, or the time is over. */
async function settle(): Promise<void> {
  const killedLast = new Date(kills.at(-1)?.at ?? began)
  let said = 0
  let least = { open: Number.POSITIVE_INFINITY, at: Date.now() }
  while (Date.now() < Math.min(shift.patience, least.at + STALL_TIMEOUT_MS)) {
    for (const customer of customers) await lookAfter(customer)
    const open = await openWork(evidence)
    const left = Object.values(open).reduce((sum, n) => sum + n, 0)
    if (left === 0) return printLine('everything has ended')
    if (left < least.open) least = { open: left, at: Date.now() }
    if (Date.now() - said > 15_000) {
      said = Date.now()
      printLine(`still open: ${JSON.stringify(open)}`)
    }
    await hurry(db, temporal, { senderDiedAt: killedLast }).catch(() => {})
    await sleep(500)
  }
  printLine('the time limit for open work has passed')
}

async function lookAfter(customer: Customer): Promise<void> {
  await lookAfterRuns(customer, shift)
  await lookAfterCohorts(customer, shift)
}

/** Sets up a customer with models, tables and a webhook endpoint. */
async function open(name: string, own: TestPlatform, number: number): Promise<Customer> {
  const { dataset_id: table } = await uploadTable(own.api, regressionTable(3_000, number))
  // Only the trainer detects that the target contains text.
  const mixed = Array.from({ length: 200 }, (_, i) =>
    JSON.stringify({ age: i, target: i % 2 ? i : `word ${i}` }),
  )
  const { dataset_id: wordsTable } = await own.api.upload<{ dataset_id: string }>(
    '/datasets/upload',
    { name: 'words.jsonl', bytes: Buffer.from(mixed.join('\n')) },
    { name: 'words', storage_format: 'jsonl' },
  )
  const models = [
    await makeModel(own, `${name}-warm`, number),
    await makeModel(own, `${name}-cold`, number + 10),
  ]
  const chatModels = [
    await importChatModel(own, `${name}-warm-llm`),
    await importChatModel(own, `${name}-cold-llm`, { load_s: 2 }),
  ]
  const [warm] = chatModels
  if (warm) {
    await chatsAgain(own, warm)
    await own.h.endpoints.setScaling(warm.endpointId, { max: 2, idle_timeout_s: 30 })
  }
  await verifiedEndpoint(own.api, inbox.url(`/${name}`), EVENT_TYPES)
  return {
    name,
    platform: own,
    table,
    wordsTable,
    models,
    chatModels,
    datasets: [],
    runs: [],
    tasks: [],
    chats: [],
    toolCalls: [],
    cohorts: [],
    keyed: [],
  }
}

/** Creates another account and returns a client for it. */
async function anotherAccount(): Promise<TestPlatform> {
  const { base_url, operations_key } = platform.ready
  const admin = new AdminClient(base_url, operations_key)
  const { account_id } = await admin.call<{ account_id: string }>('POST', '/accounts', { name: 'second' })
  const { api_key } = await admin.call<{ api_key: string }>('POST', `/accounts/${account_id}/keys`, {
    name: 'second',
    role: 'admin',
  })
  return {
    ...platform,
    ready: { ...platform.ready, account_id, api_key },
    h: hearth({ baseUrl: base_url, apiKey: api_key }),
    api: builderClient(base_url, api_key),
  }
}

/** Returns the outcomes of all work, with the errors of failed work. */
async function endsByKind(): Promise<string[]> {
  const { rows } = await sql<{ what: string; status: string; why: string | null; n: number }>`
    select 'task ' || surface as what, status, error as why, count(*)::int as n from task group by 1, 2, 3
    union all select 'run ' || job_name, status, error_message, count(*)::int
      from training_run where job_name like 'chaos-%' group by 1, 2, 3
    union all select 'cohort', status, error->>'code', count(*)::int from cohort group by 1, 2, 3
    union all select 'invocation', case when ended then 'ended' else 'open' end, null, count(*)::int from invocation group by 1, 2, 3
    union all select 'dataset', status, error_message, count(*)::int from dataset group by 1, 2, 3
    union all select 'lease ' || kind, state, null, count(*)::int from lease group by 1, 2, 3
    union all select 'delivery attempt', coalesce(outcome, 'open'), error_code, count(*)::int from webhook_attempt group by 1, 2, 3
    order by 1, 2, 4 desc`.execute(db)
  return rows.map(
    ({ what, status, why, n }) =>
      `${what.padEnd(22)}   ${status.padEnd(12)} ${String(n).padStart(6)}   ${why?.slice(0, 160) ?? ''}`,
  )
}

function report(): void {
  const print = (title: string, lines: readonly string[]) =>
    process.stdout.write(`\n${title}\n${lines.map((line) => `  ${line}\n`).join('')}`)
  const byPrey = Map.groupBy(kills, ({ prey }) => prey)
  const counts = PREY.map((prey) => `${prey.padEnd(14)} ${byPrey.get(prey)?.length ?? 0}`)
  print(`${kills.length} kills`, counts)
  print('requests (refused: rejected or cut off)', tally.lines())
  print('ended', ended)
  const refused = Map.groupBy(refusals, ({ status }) => status)
  const answers = [...refused].map(([status, all]) => `${all.length} x ${status || 'cut'}`)
  print('full disk', [
    `${full.length} times; uploads meanwhile: ${answers.join(', ') || 'none'}; runs waited ${roomWaits} times`,
  ])
  const times = [...inbox.received.values()].map((each) => each.times)
  print('events', [`${times.length} received, ${times.filter((n) => n > 1).length} more than once`])
  print(
    `${tally.violations.length} violations`,
    tally.violations.slice(0, 200).map(({ check, evidence: shown }) => `${check}: ${shown}`),
  )
  process.stdout.write(`seed ${seed}\n`)
}
