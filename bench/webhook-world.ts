import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { generate } from 'selfsigned'
import { request } from 'undici'
import { openDatabase } from '../db/database.ts'
import type { Database } from '../db/tables.ts'
import { freePort } from '../platform/free-ports.ts'
import { type BenchPlatform, startPlatform } from './platform.ts'
import type { Publisher } from './webhook-feed.ts'

/** The figures of the load driver; times are in milliseconds. */
export interface Load {
  accepted: number
  accept_per_s: number
  delivered: number
  duplicates: number
  deliver_per_s: number
  e2e_p50_ms: number
  e2e_p99_ms: number
  slow_hits: number
}

/** An account with one webhook endpoint on the driver's receiver. */
export interface Subscriber {
  publisher: Publisher
  /** Its API key. */
  key: string
  /** Adds the endpoint and waits until it's verified, which requires a listening receiver. */
  verify: (path: string) => Promise<void>
}

/** A platform with webhooks enabled, and its database. Deliveries may reach the load driver. */
export interface WebhookWorld extends AsyncDisposable {
  platform: BenchPlatform
  db: Kysely<Database>
  /** The receiver's certificate as PEM, and the URL for the bare loop's requests. */
  certificate: string
  bareDestination: string
  subscriber: () => Promise<Subscriber>
  /** Runs the driver; calls `prepare` once its receiver is listening. */
  load: (args: string[], prepare?: () => Promise<void>) => Promise<Load>
}

const BODY = '{"lab_ts":"{{TS}}","lab_id":"{{ID}}"}'

/** Builds the driver, creates a certificate, and starts the platform. */
export async function startWebhookWorld(): Promise<WebhookWorld> {
  await using stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'hearth-hookload-'))
  stack.defer(() => rmSync(folder, { recursive: true }))
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

  const platform = stack.use(
    await startPlatform({
      HEARTH_FEATURES: 'webhooks',
      HEARTH_EGRESS_ALLOW: `127.0.0.0/8:${port},::1/128:${port}`,
      NODE_EXTRA_CA_CERTS: files.cert,
    }),
  )
  const databaseUrl = readFileSync(`/proc/${platform.pidOf('api')}/environ`, 'utf8')
    .split('\0')
    .find((line) => line.startsWith('DATABASE_URL='))
    ?.slice('DATABASE_URL='.length)
  const db = openDatabase(databaseUrl ?? '', { max: 8 })
  stack.defer(() => db.destroy())

  const receiver = ['-recv', `127.0.0.1:${port}`, '-tls-cert', files.cert, '-tls-key', files.key]
  const load: WebhookWorld['load'] = async (args, prepare = async () => {}) => {
    const child = spawn(driver, [...receiver, '-body', BODY, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, GOMAXPROCS: '1' },
    })
    const text: string[] = []
    child.stdout.on('data', (chunk: Buffer) => text.push(chunk.toString()))
    while (!text.join('').includes('listening')) await sleep(20)
    await prepare()
    child.stdin.end('\n')
    await once(child, 'exit')
    return JSON.parse(text.join('').split('\n')[1] ?? '{}') as Load
  }
  const opened = stack.move()
  return {
    platform,
    db,
    certificate: cert,
    bareDestination: `https://localhost:${port}/in`,
    subscriber: () => subscriberOf(platform, `https://localhost:${port}`),
    load,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Returns the arguments for publishing `n` events at `rate` per second, at full speed by default. */
export const publish = (url: string, n: number, rate = 0) => [
  '-url',
  url,
  '-n',
  String(n),
  '-rate',
  String(rate),
]

async function subscriberOf(
  { baseUrl, operationsKey, endpoint }: BenchPlatform,
  receiver: string,
): Promise<Subscriber> {
  const admin = { 'x-api-key': operationsKey }
  const accounts = `${baseUrl}/api/v1/admin/accounts`
  const { account_id: accountId } = await call<{ account_id: string }>('POST', accounts, admin, {
    name: 'bench',
  })
  const { api_key: key } = await call<{ api_key: string }>('POST', `${accounts}/${accountId}/keys`, admin, {
    name: 'bench',
    role: 'admin',
  })
  const headers = { 'x-api-key': key }
  const endpoints = `${baseUrl}/api/builder/v1/webhook-endpoints`
  return {
    publisher: { accountId, endpointId: endpoint.endpoint_id, modelKey: 'bench' },
    key,
    async verify(path) {
      const { endpoint_id: id } = await call<{ endpoint_id: string }>('POST', endpoints, headers, {
        name: 'bench',
        url: receiver + path,
        event_types: ['inference.task.succeeded'],
      })
      for (;;) {
        const one = await call<{ verification_status: string }>('GET', `${endpoints}/${id}`, headers)
        if (one.verification_status === 'active') return
        await sleep(50)
      }
    },
  }
}

/** Sends one request to the platform; throws unless it succeeds. */
export async function call<T>(
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
