import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { request } from 'undici'
import { ControlClient } from '../node-runtime/control/client.ts'
import { loadOrJoin } from '../node-runtime/control/identity.ts'
import { type BenchPlatform, cpuSeconds, startPlatform } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// The CPU cost of a thousand idle pollers for the gate and for Temporal, with and without the gate.
// `npm run bench:temporal-gate [seconds]`

const NODES = 50
const POLLERS = 1_000
const CEILING = 0.02
/** Temporal answers an idle poll after a minute, so each poller finishes at least one poll in this time. */
const MEASURED_S = unlessOnce(Math.max(60, Number(process.argv[2] ?? 70)), 5)
const SETTLE_DELAY_MS = 5_000
const POLL_INTERVAL_MS = 70_000

interface Poller {
  connection: Connection
  queue: string
}

await using platform = await startPlatform()
const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-nodes-'))
try {
  const idle = await measure([])
  const through = await measure(await throughGate())
  const direct = await measure(await straight())
  console.log(`${POLLERS} pollers of ${NODES} nodes, ${MEASURED_S} s; shares of a core:`)
  console.table({ 'no pollers': idle, 'through the gate': through, 'straight to Temporal': direct })
  if (through.gate > CEILING) {
    console.error(
      `the gate takes ${(100 * through.gate).toFixed(2)} % of a core, more than ${100 * CEILING} %`,
    )
    endWith(false)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** Opens nodes that joined in the usual way, each with its own connection. */
function throughGate(): Promise<Poller[]> {
  return Promise.all(
    Array.from({ length: NODES }, async (_, index) => {
      const identity = await joinAs(platform, index)
      const control = new ControlClient({ identity, gateways: () => [platform.baseUrl] })
      const asked = { instance_id: randomUUID(), is_start: true }
      const { address, token } = await control.temporalCredential(asked)
      await control.close()
      const metadata = { authorization: `Bearer ${token}` }
      return {
        connection: await Connection.connect({ address, metadata, interceptors: [] }),
        queue: `node.${identity.nodeId}`,
      }
    }),
  )
}

/** Opens the same number of pollers and connections without the gate. */
function straight(): Promise<Poller[]> {
  return Promise.all(
    Array.from({ length: NODES }, async (_, index) => ({
      connection: await Connection.connect({ address: platform.temporalAddress, interceptors: [] }),
      queue: `bench.${index}`,
    })),
  )
}

async function joinAs({ baseUrl, operationsKey, accountId }: BenchPlatform, index: number) {
  const answer = await request(`${baseUrl}/api/v1/admin/node-tokens`, {
    method: 'POST',
    headers: { 'x-api-key': operationsKey, 'content-type': 'application/json' },
    body: JSON.stringify({ account_id: accountId }),
  })
  const { node_token: token } = (await answer.body.json()) as { node_token: string }
  return loadOrJoin({
    dir: join(folder, String(index)),
    gateway: baseUrl,
    token,
    name: `bench-${index}`,
    inventory: {
      hardware: 'cpu',
      cpus: 1,
      memory_mb: 1_000,
      ram_mb: 1_000,
      gpus: [],
      profiles: [],
      train_slots: 0,
      platform: 'linux',
      version: 'bench',
    },
  })
}

/** Returns the CPU usage of both processes while all pollers are polling. */
async function measure(pollers: Poller[]): Promise<{ gate: number; temporal: number }> {
  const over = new AbortController()
  const each = POLLERS / NODES
  const polling = pollers.flatMap((poller) => Array.from({ length: each }, () => poll(poller, over.signal)))
  await sleep(SETTLE_DELAY_MS)
  const pids = [platform.pidOf('gate'), platform.pidOf('temporal')]
  const before = pids.map(cpuSeconds)
  const startedAt = performance.now()
  await sleep(MEASURED_S * 1_000)
  const seconds = (performance.now() - startedAt) / 1_000
  const [gate = Number.NaN, temporal = Number.NaN] = pids.map(
    (pid, index) => (cpuSeconds(pid) - (before[index] ?? 0)) / seconds,
  )
  over.abort()
  await Promise.all(pollers.map(({ connection }) => connection.close()))
  await Promise.all(polling)
  return { gate: Number(gate.toFixed(4)), temporal: Number(temporal.toFixed(4)) }
}

async function poll({ connection, queue }: Poller, over: AbortSignal): Promise<void> {
  const asked = { namespace: 'default', taskQueue: { name: queue, kind: 1 }, identity: 'bench' }
  while (!over.aborted) {
    await connection
      .withDeadline(Date.now() + POLL_INTERVAL_MS, () =>
        connection.workflowService.pollActivityTaskQueue(asked),
      )
      .catch((err: unknown) => {
        if (!over.aborted) console.error(`a poll failed: ${String(err)}`)
        return sleep(1_000)
      })
  }
}
