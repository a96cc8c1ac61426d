import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { generate } from 'selfsigned'
import { request } from 'undici'
import { openDatabase } from '../db/database.ts'
import { type BenchPlatform, cpuSeconds, startPlatform } from './platform.ts'
import { type Publisher, startBareFeed, startJournalFeed } from './webhook-feed.ts'

// Webhooks end to end: events go in by the gateway's journal and come out as signed HTTPS POSTs, beside a bare loop of one
// insert and one POST per event in the same run; then one destination that answers after 2 s beside one that is quick.

const FLAT_OUT = 5_000
const BODY = '{"lab_ts":"{{TS}}","lab_id":"{{ID}}"}'

interface Load {
  accepted: number
  accept_per_s: number
  delivered: number
  duplicates: number
  deliver_per_s: number
  e2e_p50_ms: number
  e2e_p99_ms: number
  slow_hits: number
}

const folder = mkdtempSync(join(tmpdir(), 'hearth-hookload-'))
const driver = join(folder, 'hookload')
execFileSync('go', ['build', '-o', driver, '.'], { cwd: new URL('harness/hookload/', import.meta.url) })
const { cert, private: key } = await generate([{ name: 'commonName', value: 'receiver' }], {
  keyType: 'ec',
  extensions: [
    { name: 'basicConstraints', cA: true },
    { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] },
  ],
})
const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
writeFileSync(files.cert, cert)
writeFileSync(files.key, key)
const port = await freePort()

await using platform = await startPlatform({
  HEARTH_FEATURES: 'webhooks',
  HEARTH_EGRESS_ALLOW: `127.0.0.0/8:${port},::1/128:${port}`,
  NODE_EXTRA_CA_CERTS: files.cert,
})
const environment = readFileSync(`/proc/${platform.pidOf('api')}/environ`, 'utf8').split('\0')
const databaseUrl = environment
  .find((line) => line.startsWith('DATABASE_URL='))
  ?.slice('DATABASE_URL='.length)
await using db = openDatabase(databaseUrl ?? '', { max: 8 })

const quick = await publisherOf(platform)
await using feed = await startJournalFeed(db, { '/quick': quick.publisher, '/slow': quick.publisher })
// An account without a destination: its events are posted by the loop alone.
const loop = await publisherOf(platform)
await using bare = await startBareFeed(db, loop.publisher, `https://localhost:${port}/in`, cert)

/** One run of the driver; `prepare` is called once its receiver listens. */
async function load(args: string[], prepare: () => Promise<void> = async () => {}): Promise<Load> {
  const child = spawn(
    driver,
    ['-recv', `127.0.0.1:${port}`, '-tls-cert', files.cert, '-tls-key', files.key, '-body', BODY, ...args],
    { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, GOMAXPROCS: '1' } },
  )
  const text: string[] = []
  child.stdout.on('data', (chunk: Buffer) => text.push(chunk.toString()))
  while (!text.join('').includes('listening')) await sleep(20)
  await prepare()
  child.stdin.end('\n')
  await once(child, 'exit')
  return JSON.parse(text.join('').split('\n')[1] ?? '{}') as Load
}

const publish = (path: string, n: number, rate = 0) => [
  '-url',
  feed.url(path),
  '-n',
  String(n),
  '-rate',
  String(rate),
]
const show = (what: string, one: Load) =>
  console.log(
    `${what.padEnd(34)} accepted ${one.accept_per_s}/s  delivered ${one.deliver_per_s}/s  p50 ${one.e2e_p50_ms.toFixed(1)} ms  p99 ${one.e2e_p99_ms.toFixed(1)} ms  duplicates ${one.duplicates}  missing ${one.accepted - one.delivered}`,
  )

const worker = platform.pidOf('control')
await load(publish('/quick', 200), () => quick.verify('/in'))
const before = cpuSeconds(worker)
const flatOut = await load([...publish('/quick', FLAT_OUT), '-wait', '60s'])
const cpu = ((cpuSeconds(worker) - before) / FLAT_OUT) * 1e6
const bareRun = await load(['-url', bare.url('/'), '-n', String(FLAT_OUT)])
const steady = await load(publish('/quick', 1_000, 50))
const bareSteady = await load(['-url', bare.url('/'), '-n', '1000', '-rate', '50'])
show('flat out', flatOut)
show('bare loop, flat out', bareRun)
show('50 a second', steady)
show('bare loop, 50 a second', bareSteady)
console.log(`delivered beside the bare loop: ${(flatOut.deliver_per_s / bareRun.deliver_per_s).toFixed(2)}x`)
console.log(`CPU of the worker per delivery: ${cpu.toFixed(0)} µs`)

const quiet = await load(publish('/quick', 200, 20))
const slow = await publisherOf(platform)
await using slowFeed = await startJournalFeed(db, { '/slow': slow.publisher })
const beside = await load(
  [...publish('/quick', 200, 20), '-slow-url', slowFeed.url('/slow'), '-slow-n', '300', '-wait', '60s'],
  () => slow.verify('/slow'),
)
show('quick destination, alone', quiet)
show('quick beside slow (2 s, 300 queued)', beside)
console.log(`quick p50 beside slow: ${(beside.e2e_p50_ms / quiet.e2e_p50_ms).toFixed(2)}x of quiet`)
rmSync(folder, { recursive: true })

/** A new account with one destination, verified when `verify` is called while a receiver listens. */
async function publisherOf({ baseUrl, endpoint }: BenchPlatform) {
  const admin = {
    headers: {
      'x-api-key': environment.find((l) => l.startsWith('HEARTH_OPERATIONS_KEY='))?.split('=')[1] ?? '',
    },
  }
  const accounts = `${baseUrl}/api/v1/admin/accounts`
  const { account_id: accountId } = await call<{ account_id: string }>('POST', accounts, admin.headers, {
    name: 'bench',
  })
  const { api_key: key } = await call<{ api_key: string }>(
    'POST',
    `${accounts}/${accountId}/keys`,
    admin.headers,
    { name: 'bench', role: 'admin' },
  )
  const headers = { 'x-api-key': key }
  const publisher: Publisher = { accountId, endpointId: endpoint.endpoint_id, modelKey: 'bench' }
  const verify = async (path: string) => {
    const url = `https://localhost:${port}${path}`
    const body = { name: 'bench', url, event_types: ['inference.task.succeeded'] }
    const endpoints = `${baseUrl}/api/builder/v1/webhook-endpoints`
    const { endpoint_id: id } = await call<{ endpoint_id: string }>('POST', endpoints, headers, body)
    for (;;) {
      const one = await call<{ verification_status: string }>('GET', `${endpoints}/${id}`, headers)
      if (one.verification_status === 'active') return
      await sleep(50)
    }
  }
  return { publisher, verify }
}

async function call<T>(
  method: 'GET' | 'POST',
  url: string,
  headers: Record<string, string>,
  body?: object,
): Promise<T> {
  const answer = await request(url, {
    method,
    headers: { ...headers, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.body.text()
  if (answer.statusCode >= 300) throw new Error(`${method} ${url} answered ${answer.statusCode}: ${text}`)
  return JSON.parse(text) as T
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
