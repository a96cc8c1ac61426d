import { mkdtemp, rm } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { request as httpRequest } from 'undici'
import type { AppOptions } from '../../../api/app.ts'
import type { IdleLimits } from '../../../api/http/connections/idle-connections.ts'
import { type OpenServices, openServices } from '../../../api/open-services.ts'
import { startGateway } from '../../../api/server.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import { newId } from '../../../domain/ids.ts'
import { type Config, readConfig } from '../../../platform/config.ts'
import { createLogger } from '../../../platform/log.ts'
import { startDatabase, type TestDatabase } from './database.ts'

export const OPERATIONS_KEY = 'ops-test-key'
export const EVALUATOR_TOKEN = 'evaluator-test-token'
/** A port on which nothing listens: Temporal is down unless a test starts it. */
const NO_TEMPORAL = '127.0.0.1:1'

type Role = 'viewer' | 'operator' | 'admin'

export interface Answer<B = unknown> {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  /** Parsed if the response is JSON. */
  body: B
}

export interface Call {
  /** An API key, sent as `X-API-Key`. */
  key?: string
  body?: unknown
  /** Sent unchanged, instead of `body`. */
  raw?: string | Uint8Array | NodeJS.ReadableStream
  headers?: Record<string, string>
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
export type AnyBody = any

export interface TestApi extends AsyncDisposable {
  readonly baseUrl: string
  readonly services: OpenServices
  readonly database: TestDatabase
  /** Returns the number of connections to the gateway, including links. */
  connections(): Promise<number>
  /** Delays requests, by path and headers, before the gateway receives them. */
  holdRequests(hold: (path: string, headers: IncomingHttpHeaders) => Promise<void>): void
  /** `path` is absolute: `/api/builder/v1/datasets`. */
  call<B = AnyBody>(method: string, path: string, call?: Call): Promise<Answer<B>>
  /** Creates an account with one key of the given role (admin by default). */
  account(options?: { role?: Role }): Promise<{ accountId: string; key: string }>
  /** Creates another key of an account. */
  key(accountId: string, role: Role): Promise<string>
}

export interface TestApiOptions extends AppOptions {
  env?: NodeJS.ProcessEnv
  /** Shares another gateway's database in the test; that gateway must outlive this one. */
  database?: TestDatabase
  config?: Partial<Config>
  idleLimits?: IdleLimits
}

/** Opens a connection for bytes that no HTTP client would send. */
export function connectTo(url: string): Socket {
  const { hostname, port } = new URL(url)
  return connect(Number(port), hostname)
}

/** Starts a real gateway with its own database. Responses are validated against their declared schemas. */
export async function startApi({
  env,
  database: shared,
  config: overrides,
  ...options
}: TestApiOptions = {}): Promise<TestApi> {
  await using stack = new AsyncDisposableStack()
  const database = shared ?? stack.use(await startDatabase())
  const folder = await mkdtemp(join(tmpdir(), 'hearth-api-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))

  const config: Config = {
    ...readConfig({
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: NO_TEMPORAL,
      HEARTH_OBJECT_DIR: join(folder, 'objects'),
      HEARTH_DATA_DIR: folder,
      HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
      HEARTH_EVALUATOR_TOKEN: EVALUATOR_TOKEN,
      HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 7).toString('base64'),
      // Tests change destinations in quick succession; the tests of the limits set their own.
      HEARTH_WEBHOOK_CHALLENGES: '100000',
      HEARTH_WEBHOOK_COOLDOWN_S: '0',
      HEARTH_LOG_LEVEL: process.env.HEARTH_LOG_LEVEL ?? 'silent',
      ...env,
    }),
    ...overrides,
  }
  const log = createLogger('test', config.HEARTH_LOG_LEVEL)
  const gateway = await startGateway({
    host: '127.0.0.1',
    port: 0,
    open: (baseUrl) => openServices(config, baseUrl, log),
    validateResponses: true,
    ...options,
  })
  stack.defer(() => gateway.stop())

  const { db } = database
  const key = (accountId: string, role: Role): Promise<string> =>
    db
      .transaction()
      .execute(async (trx) => (await apiKeyRepository.createApiKey(trx, { accountId, name: role, role })).key)
  const opened = stack.move()
  return {
    baseUrl: gateway.baseUrl,
    services: gateway.services,
    database,
    key,
    connections: () => promisify(gateway.server.getConnections.bind(gateway.server))(),
    holdRequests(hold) {
      const { server } = gateway
      const listeners = server.listeners('request')
      server.removeAllListeners('request')
      server.on('request', (req, res) => {
        void hold(req.url ?? '', req.headers).then(() =>
          listeners.forEach((listener) => listener.call(server, req, res)),
        )
      })
    },
    call: (method, path, call) => callApi(gateway.baseUrl + path, method, call),
    async account({ role = 'admin' } = {}) {
      const accountId = newId()
      await db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
      const admin = await key(accountId, 'admin')
      return { accountId, key: role === 'admin' ? admin : await key(accountId, role) }
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Like `TestApi.call`, for a gateway at another URL. */
export async function callApi<B = AnyBody>(url: string, method: string, call: Call = {}): Promise<Answer<B>> {
  const headers: Record<string, string> = {
    ...(call.key !== undefined && { 'x-api-key': call.key }),
    ...(call.body !== undefined && { 'content-type': 'application/json' }),
    ...call.headers,
  }
  const body = call.raw ?? (call.body === undefined ? undefined : JSON.stringify(call.body))
  const answer = await httpRequest(url, {
    method: method as 'GET',
    headers,
    ...(body !== undefined && { body: body as string }),
  })
  const text = await answer.body.text()
  const isJson = String(answer.headers['content-type']).startsWith('application/json') && text !== ''
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text,
    body: (isJson ? JSON.parse(text) : undefined) as B,
  }
}
