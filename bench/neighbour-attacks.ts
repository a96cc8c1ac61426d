import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import pRetry from 'p-retry'
import { Pool } from 'undici'
import WebSocket from 'ws'
import { hearth } from '../client/index.ts'
import { openDatabase } from '../db/database.ts'
import { newId } from '../domain/ids.ts'
import { exportTable, register, train, uploadTable } from '../embedded/demo/steps.ts'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { readConfig } from '../platform/config.ts'
import { encodeFrame } from '../platform/link/codec.ts'
import type { UploadFields } from '../schemas/dataset.ts'
import { FRAME } from '../schemas/nodes/link.ts'
import { gatewayAttacks } from './neighbour-gateway.ts'
import { INVENTORY, joined } from './neighbour-node.ts'
import { compressedTable, environmentOf, openSockets, TOOL_ATTACKS } from './neighbour-tools.ts'
import type { BenchPlatform } from './platform.ts'

/** A way to disturb other accounts, and a harmless request of the same size. */
export interface Attack {
  name: string
  perSecond: number
  bytes: number
  /** Returns the status of the response, or `CUT` or `HELD`. */
  act: (nth: number) => Promise<number>
  harmless: (nth: number) => Promise<number>
  prepare?: () => Promise<void>
  /** Releases the resources that the attack holds. */
  end?: () => Promise<void>
}

interface Attacks extends AsyncDisposable {
  attacks: Attack[]
  /** Attacks that one machine can't run, and where they're tested instead. */
  notDriven: string[]
}

type Json = Record<string, unknown>

const BUILDER = '/api/builder/v1'
/** More webhook endpoints than an account is allowed to have. */
const DESTINATIONS = 40
const WAIT_TIMEOUT_MS = 20_000
const MAX_TRIES = 60
/** The number of lines that one read returns. */
const LOG_LINES = 5_000
/** The number of rows in one inference, enough to keep a tabular model busy. */
const ROWS = 100

/** Builds schema definitions that each refer to the next one twice. */
function ladder(depth: number, step: (next: Json) => Json): Json {
  const steps = Array.from({ length: depth }, (_, i) => [
    `d${i}`,
    i === depth - 1 ? { type: 'number' } : step({ $ref: `#/$defs/d${i + 1}` }),
  ])
  return { type: 'object', properties: { x: { $ref: '#/$defs/d0' } }, $defs: Object.fromEntries(steps) }
}
const byDepth = ladder(34, (next) => ({ anyOf: [{ properties: { a: next } }, { properties: { a: next } }] }))
/** Retries every second for a while. */
const retryWhileBusy = <T>(ask: () => Promise<T>): Promise<T> =>
  pRetry(ask, { retries: MAX_TRIES - 1, minTimeout: 1_000, factor: 1 })

const nested = (levels: number): unknown => (levels === 0 ? 'leaf' : { a: nested(levels - 1) })

/** Sets up the second account with its model and node, and returns its attacks. */
export async function openAttacks(platform: BenchPlatform): Promise<Attacks> {
  await using stack = new AsyncDisposableStack()
  const { baseUrl, operationsKey } = platform
  const pool = new Pool(baseUrl, { connections: 256 })
  stack.defer(() => pool.destroy())
  const send = async (method: string, path: string, key: string, body?: unknown, headers: Json = {}) => {
    const answer = await pool.request({
      method: method as 'GET',
      path,
      headers: {
        ...(key && { 'x-api-key': key }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(headers as Record<string, string>),
      },
      body: body === undefined ? null : JSON.stringify(body),
      headersTimeout: WAIT_TIMEOUT_MS,
    })
    return { status: answer.statusCode, text: await answer.body.text(), headers: answer.headers }
  }
  const made = async <T>(path: string, key: string, body: unknown): Promise<T> => {
    const { status, text } = await send('POST', path, key, body)
    if (status >= 300) throw new Error(`${path} answered ${status}: ${text.slice(0, 300)}`)
    return JSON.parse(text) as T
  }
  const accounts = '/api/v1/admin/accounts'
  const { account_id: accountId } = await made<{ account_id: string }>(accounts, operationsKey, {
    name: 'loud',
  })
  const { api_key: key } = await made<{ api_key: string }>(`${accounts}/${accountId}/keys`, operationsKey, {
    name: 'loud',
  })
  const databaseUrl = environmentOf(platform.pidOf('api'), 'DATABASE_URL')
  if (databaseUrl === undefined) throw new Error("cannot read the gateway's environment")
  const db = openDatabase(databaseUrl, { max: 1 })
  stack.defer(() => db.destroy())
  const h = hearth({ baseUrl, apiKey: key, tries: 1 })
  const { python } = await ensurePythonEnv('tabular', {
    cacheDir: readConfig().HEARTH_CACHE_DIR,
    log: () => {},
  })
  const table = await exportTable(python)
  const { dataset_id: datasetId } = await uploadTable(h, table)
  const { jobId } = await train(h, datasetId, () => {})
  const endpoint = await register(h, jobId)

  const ask = async (method: string, path: string, body?: unknown) =>
    (await send(method, `${BUILDER}${path}`, key, body)).status
  const infer = (id: string, input: unknown, verb = 'infer') =>
    ask('POST', `/endpoints/${id}/${verb}`, { input })
  const list = () => ask('GET', '/endpoints')
  /** Returns a request of about this many bytes that gets an immediate response. */
  const padded = (bytes: number) => {
    const pad = 'x'.repeat(bytes)
    return () => infer('none', { pad })
  }
  const sockets = openSockets(baseUrl)
  stack.defer(() => sockets.end())
  const upload = async (bytes: Buffer, format: UploadFields['storage_format']) => {
    await h.datasets.uploadForm({
      name: newId(),
      storage_format: format,
      file: new Blob([new Uint8Array(bytes)]),
      filename: `table.${format}`,
    })
    return 202
  }

  const attacks: Attack[] = []
  const add = (
    name: string,
    perSecond: number,
    bytes: number,
    rest: Omit<Attack, 'name' | 'perSecond' | 'bytes'>,
  ) => attacks.push({ name, perSecond, bytes, ...rest })

  attacks.push(
    ...gatewayAttacks({
      accountId,
      key,
      endpointId: endpoint.endpoint_id,
      send: (method, path, by, body, headers) => send(method, path, by, body, headers),
      sockets,
      padded,
    }),
  )
  const registering = (schema: Json) =>
    ask('POST', `/training/runs/${jobId}/register-for-inference`, {
      name: `s-${newId()}`,
      input_schema: schema,
      example_input: { x: nested(40) },
    })
  add('schemas that multiply, registered', 2, 2_000, {
    act: () => registering(ladder(26, (next) => ({ anyOf: [next, next] }))),
    harmless: padded(2_000),
  })
  add('schemas that multiply with depth, registered', 2, 4_000, {
    act: () => registering(byDepth),
    harmless: padded(4_000),
  })
  let costly = ''
  add('inputs that are slow to check', 5, 400, {
    async prepare() {
      const made = { name: `costly-${newId()}`, input_schema: byDepth, example_input: { x: 1 } }
      // Work from earlier attacks is ahead in the queue.
      costly = (await retryWhileBusy(() => h.runs.register(jobId, made))).endpoint_id
    },
    act: () => infer(costly, { x: nested(40) }),
    harmless: () => infer(endpoint.endpoint_id, endpoint.example_input),
  })
  const claim = (id: string) =>
    sockets.hold(
      [
        `POST /api/v1/leases/${newId()}:complete HTTP/1.1`,
        `x-node-id: ${id}`,
        `x-account-id: ${accountId}`,
        `x-node-timestamp: ${Date.now()}`,
        `x-node-signature: ${Buffer.alloc(64).toString('base64')}`,
        'content-type: application/json',
        'transfer-encoding: chunked',
      ],
      `10000\r\n${' '.repeat(0x10000)}\r\n`,
    )
  add('endless bodies from strangers', 20, 65_536, {
    act: (nth) =>
      nth % 2
        ? claim(newId())
        : sockets.hold(
            ['POST /api/v1/nodes:join HTTP/1.1', `authorization: Bearer ${newId()}`, 'content-length: 16000'],
            ' '.repeat(8_000),
          ),
    harmless: padded(65_536),
    end: () => sockets.end(),
  })
  let putUrl = ''
  add('stalled uploads', 20, 100, {
    async prepare() {
      const { dataset_id } = await h.datasets.create({
        dataset_name: 'idle',
        storage_format: 'csv',
      })
      const { signed_url } = await h.datasets.initUpload(dataset_id, {
        filename: 'a.csv',
        content_type: 'text/csv',
      })
      putUrl = signed_url
    },
    act() {
      const { pathname, search } = new URL(putUrl)
      const head = [`PUT ${pathname}${search} HTTP/1.1`, 'content-type: text/csv', 'content-length: 1000000']
      return sockets.hold(head, 'x')
    },
    harmless: padded(100),
    end: () => sockets.end(),
  })
  add('unread responses', 20, 100, {
    act: () => sockets.unread([`GET /openapi.json HTTP/1.1`, `x-api-key: ${key}`], 20),
    harmless: () => sockets.read([`GET /openapi.json HTTP/1.1`, `x-api-key: ${key}`], 20),
    end: () => sockets.end(),
  })
  const { instances = [] } = endpoint.example_input as { instances?: unknown[] }
  const manyRows = { instances: Array.from({ length: ROWS }, () => instances[0]) }
  const shared = platform.endpoint.endpoint_id
  add('requests to the same model', 60, JSON.stringify(manyRows).length, {
    async prepare() {
      const isPublic = { visibility: 'public', review_status: 'approved' } as const
      await db.updateTable('endpoint').set(isPublic).where('id', '=', shared).execute()
    },
    act: () => infer(shared, manyRows),
    harmless: () => infer(endpoint.endpoint_id, manyRows),
  })
  add('unknown keys', 200, 100, {
    act: async () =>
      (await send('GET', `${BUILDER}/endpoints`, `hk_${randomBytes(32).toString('base64url')}`)).status,
    harmless: list,
  })
  const hooks: string[] = []
  add(`events for ${DESTINATIONS} destinations`, 50, 200, {
    async prepare() {
      for (let i = 0; i < DESTINATIONS; i++) {
        const { status, text } = await send('POST', `${BUILDER}/webhook-endpoints`, key, {
          name: `hook-${i}`,
          url: `https://hook-${i}.example.com/in`,
          event_types: ['inference.task.succeeded'],
        })
        if (status < 300) hooks.push((JSON.parse(text) as { endpoint_id: string }).endpoint_id)
      }
      // Mark endpoints as verified: no local host answers challenges, and the bench measures only the deliveries that
      // follow.
      await db
        .updateTable('webhook_endpoint')
        .set({ verification_status: 'active' })
        .where('account_id', '=', accountId)
        .execute()
    },
    act: () => infer(endpoint.endpoint_id, endpoint.example_input),
    harmless: () => infer(endpoint.endpoint_id, endpoint.example_input),
  })
  add('destination challenges', 20, 200, {
    async act(nth) {
      const path = `${BUILDER}/webhook-endpoints/${hooks[nth % Math.max(1, hooks.length)] ?? newId()}`
      const { headers, status } = await send('GET', path, key)
      if (status !== 200) return status
      const url = `https://again-${nth}.example.com/in`
      return (await send('PATCH', path, key, { url }, { 'if-match': String(headers['etag']) })).status
    },
    harmless: padded(200),
  })
  add('queued tasks', 50, 400, {
    act: () => infer(endpoint.endpoint_id, endpoint.example_input, 'infer:async'),
    harmless: () => infer(endpoint.endpoint_id, endpoint.example_input),
  })
  let tooLarge = ''
  add('over-quota tasks that no node can take', 150, 400, {
    async prepare() {
      const { jobId: other } = await train(h, datasetId, () => {})
      tooLarge = (await register(h, other)).endpoint_id
      await db
        .updateTable('model_version')
        .from('endpoint')
        .set({ memory_mb: 100_000_000 })
        .whereRef('endpoint.version_id', '=', 'model_version.id')
        .where('endpoint.id', '=', tooLarge)
        .execute()
    },
    act: () => infer(tooLarge, endpoint.example_input, 'infer:async'),
    harmless: list,
  })
  add('tables to read', 2, table.length, {
    act: () => upload(table, 'csv').catch(() => 429),
    harmless: padded(table.length),
  })
  const tool = (code: string) => ask('POST', '/endpoints/run_python/infer', { input: { code, timeout_s: 5 } })
  for (const [name, code] of TOOL_ATTACKS)
    add(`a tool that takes ${name}`, 1, code.length, {
      act: () => tool(code),
      harmless: () => tool('print(1)'),
    })
  const parquet = await compressedTable(python)
  add('tables that unpack to many times their size', 1, parquet.length, {
    act: () => upload(parquet, 'parquet').catch(() => 429),
    harmless: padded(Math.min(parquet.length, 900_000)),
  })
  add('long logs read over and over', 50, 100, {
    async prepare() {
      const lines = sql`generate_series(1000001, ${1_000_000 + LOG_LINES}) as line`
      await sql`insert into job_log (job_id, attempt, seq, message, created_at)
        select ${jobId}, 1, line, repeat('x', 1000), now() from ${lines}`.execute(db)
    },
    act: () => ask('GET', `/training/runs/${jobId}/logs`),
    harmless: list,
  })
  const node = await joined(made, { operationsKey, accountId })
  const tellNode = async (path: string, body: Json) => {
    const text = JSON.stringify(body)
    const headers = node.sign('POST', path, text)
    return (await send('POST', path, '', body, headers)).status
  }
  add('overflowing counts from a node', 20, 200, {
    act: () =>
      tellNode(`/api/v1/leases/${newId()}:complete`, {
        status: 'succeeded',
        result: {},
        inference_time_ms: 1.7e308,
        tokens: 9e15,
      }),
    harmless: padded(200),
  })
  const links: WebSocket[] = []
  const link = async () => {
    const path = '/api/v1/nodes/link'
    const socket = new WebSocket(baseUrl.replace(/^http/, 'ws') + path, {
      headers: node.sign('GET', path, ''),
    })
    socket.on('error', () => {})
    await new Promise((resolve) => socket.once('open', resolve).once('close', resolve))
    links.push(socket)
    return socket
  }
  const frames = (frame: Buffer, count: number) => async () => {
    const open = links.findLast(({ readyState }) => readyState === WebSocket.OPEN) ?? (await link())
    if (open.readyState !== WebSocket.OPEN) return 0
    for (let i = 0; i < count; i++) open.send(frame)
    return 200
  }
  const hang = async () => links.splice(0).forEach((socket) => socket.terminate())
  const hello = { inventory: INVENTORY }
  add('hellos from a node, 100 at a time', 10, 25_000, {
    act: frames(encodeFrame(FRAME.hello, 0, JSON.stringify(hello)), 100),
    harmless: padded(25_000),
    end: hang,
  })
  const line = { job_id: jobId, attempt: 1, seq: 1, stream: 'stdout', message: 'x'.repeat(200_000) }
  add('log lines from a node', 5, 200_000, {
    act: frames(encodeFrame(FRAME.log, 0, '', Buffer.from(JSON.stringify([line]))), 1),
    harmless: padded(200_000),
    end: hang,
  })

  const opened = stack.move()
  return {
    attacks,
    notDriven: [
      'names that are slow to resolve: not run, because they need a slow name server; test/platform/egress/name-lookup.test.ts covers them',
      'unread streams from a node: not run, because the node would need a loaded model; test/platform/link/channel.test.ts covers them',
    ],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}
