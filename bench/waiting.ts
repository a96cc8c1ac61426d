import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { AdminClient } from '../cli/admin-client.ts'
import { openDatabase } from '../db/database.ts'
import { environmentOf } from './neighbour-tools.ts'
import { cpuSeconds, descendants, startPlatform } from './platform.ts'
import { isOnce, unlessOnce } from './rounds.ts'

// Measures the CPU cost of tasks waiting while there is no node, compared with the same platform without waiting tasks,
// and the time until they continue once a node is back: `waiting.ts [seconds]`.

const CROWDS = isOnce ? [20] : [400, 1_000]
const MEASURED_S = unlessOnce(Number(process.argv[2] ?? 60), 5)
/** A task's first attempts follow each other closely, so the bench waits for the steady state. */
const SETTLE_DELAY_MS = 240_000
const POLL_INTERVAL_MS = 500
const AT_ONCE = 8
const PROCESSES = ['temporal', 'control', 'postgres', 'api'] as const

await using platform = await startPlatform()
const { h, endpoint, accountId } = platform
const admin = new AdminClient(platform.baseUrl, platform.operationsKey)
await using db = openDatabase(environmentOf(platform.pidOf('api'), 'DATABASE_URL') ?? '', { max: 1 })
const node = await db.selectFrom('node').select('id').where('status', '=', 'active').executeTakeFirstOrThrow()
await db.updateTable('account').set({ task_quota: 10_000 }).where('id', '=', accountId).execute()

await admin.call('POST', `/nodes/${node.id}/drain`)
await sleep(SETTLE_DELAY_MS)
const shares = { 'nothing waits': await measure() }
const delays: Record<string, object> = {}
for (const crowd of CROWDS) {
  await queue(crowd)
  await sleep(SETTLE_DELAY_MS)
  Object.assign(shares, { [`${crowd} tasks wait`]: await measure() })
  delays[`${crowd} tasks`] = await resume()
  await admin.call('POST', `/nodes/${node.id}/drain`)
}
console.log(
  `shares of a core over ${MEASURED_S} s, ${SETTLE_DELAY_MS / 1_000} s after the last task arrived:`,
)
console.table(shares)
console.log('seconds from the end of the drain:')
console.table(delays)

async function queue(count: number): Promise<void> {
  let left = count
  const one = async () => {
    while (left-- > 0) await h.endpoints.inferAsync(endpoint.endpoint_id, { input: endpoint.example_input })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
}

/** Returns each process's CPU as a share of a core; PostgreSQL's processes count as one. */
async function measure() {
  const pids = PROCESSES.map((name) => {
    const pid = platform.pidOf(name)
    return name === 'postgres' ? [pid, ...descendants(pid, 'postgres')] : [pid]
  })
  const known = new Map<number, number>()
  const used = () => pids.map((each) => each.reduce((sum, pid) => sum + usedBy(pid, known), 0))
  const [before, startedAt] = [used(), performance.now()]
  await sleep(MEASURED_S * 1_000)
  const seconds = (performance.now() - startedAt) / 1_000
  const shareOf = (after: number, index: number) =>
    Number(((after - (before[index] ?? 0)) / seconds).toFixed(4))
  return Object.fromEntries(used().map((after, index) => [PROCESSES[index], shareOf(after, index)]))
}

/** Returns the CPU time of a process, or the last known value if it has exited. */
function usedBy(pid: number, known: Map<number, number>): number {
  try {
    known.set(pid, cpuSeconds(pid))
  } catch {
    // The process has exited in the meantime.
  }
  return known.get(pid) ?? 0
}

/** Lets the node accept work again and waits until all tasks have ended. */
async function resume() {
  const began = new Date()
  await admin.call('POST', `/nodes/${node.id}/resume`)
  for (;;) {
    const { open, first, last, failed } = await db
      .selectFrom('task')
      .select([
        sql<number>`count(*) filter (where completed_at is null)::int`.as('open'),
        sql<number>`count(*) filter (where status = 'failed')::int`.as('failed'),
        sql<Date | null>`min(started_at)`.as('first'),
        sql<Date | null>`max(completed_at)`.as('last'),
      ])
      .where((eb) => eb.or([eb('completed_at', 'is', null), eb('completed_at', '>=', began)]))
      .executeTakeFirstOrThrow()
    const after = (at: Date | null) => ((at?.getTime() ?? Number.NaN) - began.getTime()) / 1_000
    if (open === 0) return { 'first at a node': after(first), 'all ended': after(last), failed }
    await sleep(POLL_INTERVAL_MS)
  }
}
