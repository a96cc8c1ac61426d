import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { request } from 'undici'
import { openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import * as nodeRepository from '../db/repositories/nodes/nodes.ts'
import * as apiKeyRepository from '../db/repositories/platform/api-keys.ts'
import { newId } from '../domain/ids.ts'
import { GATEWAY_ENV, GATEWAY_FLAGS } from '../embedded/supervisor.ts'
import { freePorts } from '../platform/free-ports.ts'
import { startServer } from './list-fixture.ts'
import { descendants, listeningPort } from './platform.ts'

/** A target for chats, with the process whose CPU time is measured. */
export interface Target {
  name: string
  url: string
  model: string
  key: string
  pid: number | undefined
}

/** The gateway, the bare proxy to compare it with, and the model server behind both. */
export interface GatewayFixture extends AsyncDisposable {
  folder: string
  targets: Record<'direct' | 'bare' | 'gateway', Target>
  nodePid: number
  databaseUrl: string
  /**
   * Moves the parts of Hearth other than the gateway, node and PostgreSQL to a core; they start on the measured one.
   */
  placeRest: (core: string) => void
}

const HARNESS = join(import.meta.dirname, 'harness')
/** The measured processes get one core; the model server and the clients share the other. */
export const MEASURED_CORE = '0'
export const OTHER_CORE = '1'
const COMPILE_CACHE = join(import.meta.dirname, '..', 'node_modules', '.cache', 'compile')
const CONNECTIONS = 256
const PRICE = 1_000

/** Starts everything; disposing stops and removes it. */
export async function startWorld(): Promise<GatewayFixture> {
  await using stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  for (const tool of ['fakellm', 'rateload']) {
    execFileSync('go', ['build', '-o', join(folder, tool), '.'], { cwd: join(HARNESS, tool) })
  }
  const postgres = stack.use(await startServer({ core: OTHER_CORE }))
  const url = await postgres.create('gateway')
  const [port = 0, proxyPort = 0] = await freePorts(2)
  const baseUrl = `http://127.0.0.1:${port}`
  const run = (core: string, name: string, args: string[], env: NodeJS.ProcessEnv = {}) => {
    const log = openSync(join(folder, `${name}.log`), 'w')
    const child = spawn('taskset', ['-c', core, process.execPath, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', log, log],
    })
    stack.defer(() => end(child))
    return child.pid ?? 0
  }
  const seeded = await seed(url)
  const profile = (process.env.BENCH_PROFILE ?? '').split(' ').filter(Boolean)
  const gatewayPid = run(MEASURED_CORE, 'gateway', [...profile, ...GATEWAY_FLAGS, 'api/main.ts'], {
    ...GATEWAY_ENV,
    DATABASE_URL: url,
    TEMPORAL_ADDRESS: '127.0.0.1:1',
    HEARTH_PORT: String(port),
    HEARTH_RATE_LIMIT: '1000000',
    HEARTH_RATE_BURST: '1000000',
    HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 1).toString('base64'),
    HEARTH_OBJECT_DIR: join(folder, 'objects'),
    HEARTH_LOG_LEVEL: 'info',
    // The same value as in scripts/bootstrap.mjs.
    NODE_COMPILE_CACHE: COMPILE_CACHE,
  })
  await answers(`${baseUrl}/api/builder/v1/health`)
  const nodePid = run(OTHER_CORE, 'node', ['bench/gateway-node.ts', catalog(folder), seeded.modelKey], {
    HEARTH_GATEWAY_URL: baseUrl,
    HEARTH_NODE_TOKEN: seeded.nodeToken,
    HEARTH_NODE_DIR: join(folder, 'node'),
    HEARTH_NODE_MEMORY_MB: '2000',
  })
  const server = await portOf(nodePid, join(folder, 'node.log'))
  const proxyPid = run(MEASURED_CORE, 'proxy', [join(HARNESS, 'proxy.mjs')], {
    PORT: String(proxyPort),
    TARGET: `http://127.0.0.1:${server}`,
    CONNS: String(CONNECTIONS),
    FRONT: 'koa-mw',
    BACK: 'dispatch',
  })
  const path = '/v1/chat/completions'
  const targets: GatewayFixture['targets'] = {
    direct: {
      name: 'direct',
      url: `http://127.0.0.1:${server}${path}`,
      model: 'x',
      key: 'sk-test',
      pid: undefined,
    },
    bare: {
      name: 'bare proxy',
      url: `http://127.0.0.1:${proxyPort}${path}`,
      model: 'x',
      key: 'sk-test',
      pid: proxyPid,
    },
    gateway: {
      name: 'gateway',
      url: baseUrl + path,
      model: seeded.endpointId,
      key: seeded.key,
      pid: gatewayPid,
    },
  }
  for (const target of Object.values(targets)) await chats(target)
  const placeRest = (core: string) => {
    for (const pid of [nodePid, postgres.pid, ...descendants(postgres.pid, 'postgres')]) {
      const { status } = spawnSync('taskset', ['-a', '-c', '-p', core, String(pid)])
      // A PostgreSQL process may have exited in the meantime.
      if (status !== 0 && (pid === nodePid || pid === postgres.pid)) throw new Error(`cannot move ${pid}`)
    }
  }
  // The model server has inherited the other core from the node.
  placeRest(MEASURED_CORE)
  const opened = stack.move()
  return {
    folder,
    targets,
    nodePid,
    databaseUrl: url,
    placeRest,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

/** Creates an account with a key and a priced endpoint, and a token for the node. */
async function seed(url: string) {
  const db = openDatabase(url, { max: 2 })
  await migrate(db)
  const [accountId, versionId, endpointId] = [newId(), newId(), newId()]
  const modelKey = `fake-${endpointId.slice(-8)}`
  const text = JSON.stringify({ type: 'object' })
  const model = { model_key: modelKey, runtime_profile: 'bench' }
  const described = { input_schema: text, output_schema: text, example_input: text, example_output: text }
  await db.insertInto('account').values({ id: accountId, name: 'bench' }).execute()
  await db
    .insertInto('model_version')
    .values({
      id: versionId,
      account_id: accountId,
      name: 'fake',
      model_config_id: 'bench',
      memory_mb: 50,
      ...model,
      ...described,
    })
    .execute()
  await db
    .insertInto('endpoint')
    .values({
      id: endpointId,
      account_id: accountId,
      name: 'fake',
      visibility: 'account',
      review_status: 'active',
      source: 'trained',
      task_type: 'chat',
      version_id: versionId,
      price_micro: PRICE,
      ...model,
      ...described,
    })
    .execute()
  const { key } = await db
    .transaction()
    .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId, name: 'bench', role: 'admin' }))
  const nodeToken = await nodeRepository.createNodeToken(db, { accountId, sharing: 'shared' })
  await db.destroy()
  return { endpointId, modelKey, key, nodeToken }
}

/** Writes a catalog whose only profile is the fake model server. */
function catalog(folder: string): string {
  const directory = join(folder, 'catalog')
  for (const name of ['runtime-profiles', 'model-configs'])
    mkdirSync(join(directory, name), { recursive: true })
  const profile = {
    profile_id: 'bench',
    display_name: 'Fake model server',
    description: 'For measuring gateways.',
    driver: 'process',
    python_env: null,
    command: [join(folder, 'fakellm'), '-addr', '127.0.0.1:0'],
    env: { GOMAXPROCS: '1' },
    health_path: '/health',
    infer_path: '/v1/chat/completions',
    task_types: ['chat'],
    requires_gpu: false,
    memory_mb: 50,
    vram_mb: 0,
    threads: 1,
    max_concurrency: CONNECTIONS,
    start_timeout_s: 10,
    stop_grace_s: 0.2,
  }
  writeFileSync(join(directory, 'runtime-profiles', 'bench.json'), JSON.stringify(profile))
  return directory
}

const EVERY_50_MS = { minTimeout: 50, factor: 1 }

async function answers(url: string): Promise<void> {
  const askOnce = async () => {
    const { statusCode, body } = await request(url)
    await body.dump()
    if (statusCode !== 200) throw new Error(`${url} answers ${statusCode}`)
  }
  await pRetry(askOnce, { retries: 300, ...EVERY_50_MS })
}

async function portOf(nodePid: number, log: string): Promise<number> {
  for (let tries = 0; tries < 300; tries++) {
    for (const pid of descendants(nodePid, 'fakellm')) {
      const port = listeningPort(pid)
      if (port) return port
    }
    await sleep(50)
  }
  throw new Error(`the node did not start its model server:\n${readFileSync(log, 'utf8').slice(-2_000)}`)
}

async function chats({ url, key, model }: Target): Promise<void> {
  const askOnce = async () => {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
    })
    const text = await body.text()
    if (statusCode !== 200) throw new Error(`${url} answers ${statusCode}: ${text}`)
  }
  await pRetry(askOnce, { retries: 100, ...EVERY_50_MS })
}
