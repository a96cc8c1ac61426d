import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { withProgress } from '../platform/async/with-progress.ts'
import type { Config } from '../platform/config.ts'
import { usableFolder } from '../platform/config/folder.ts'
import { buildConsole } from '../platform/console-build.ts'
import { freePorts, keptPort, freePort } from '../platform/free-ports.ts'
import { localUrl, type ListenAddress, listenError } from '../platform/listening.ts'
import { exceptThisMachine } from '../platform/proxy.ts'
import { temporalAccess } from '../platform/temporal.ts'
import { metricsPorts, metricsUrl, metricsUrls, onPort } from './metrics-ports.ts'
import { type EmbeddedOptions, StartError } from './options.ts'
import { createOutput, type Output } from './output.ts'
import { layoutOf, ROOT, type Layout } from './paths.ts'
import { ensureDatabase, initPostgres, postgresChild } from './postgres.ts'
import { superviseChild, type Child, type ChildSpec } from './processes/child.ts'
import { lockDataDir } from './processes/data-lock.ts'
import { reapLeftovers } from './processes/pid-files.ts'
import { waitUntilServing } from './readiness.ts'
import { loadSecrets, writeJsonFile, type Secrets } from './secrets.ts'
import { prepareDatabase } from './seed.ts'
import { findTemporalCli } from './temporal/cli.ts'
import {
  addSearchAttributes,
  localPlace,
  temporalChild,
  type TemporalService,
  temporalReady,
} from './temporal/server.ts'
import { upgradeStore } from './temporal/store.ts'

/** The content of `--ready-file`. */
export interface ReadyFile {
  base_url: string
  api_key: string
  account_id: string
  operations_key: string
  evaluator_token: string
  temporal_address: string
  temporal_ui_url: string | null
  /** The gateway's metrics, for Prometheus. */
  metrics_url: string
  pid: number
}

/** A running embedded platform. */
export interface Platform {
  ready: ReadyFile
  logs: string
  stop(): Promise<void>
}

interface Context {
  config: Config
  layout: Layout
  output: Output
  children: Child[]
  /** Programs that run once and end when the signal aborts; the supervisor does not exit before they do. */
  programs: Promise<unknown>[]
  /** Aborted to cancel the startup; no child is started after that. */
  signal: AbortSignal | undefined
}

/** The time in ms that each kind of process has to stop, in stopping order; the last one gets the remaining time. */
const STOP_ORDER = [
  // The node stops first, so that its trainers' checkpoints can still be stored through the API.
  ['node', 4000],
  ['gate', 500],
  ['api', 1500],
  ['control', 1500],
  ['temporal', 1500],
  ['temporal-schema', 1500],
  ['postgres', 0],
] as const
const STOP_TIMEOUT_MS = 9500
const PROGRAM_EXIT_TIMEOUT_MS = 2000
/** The time for our own Temporal server to respond. It's long, because the machine may be busy. */
const OWN_SERVER_TIMEOUT_MS = 120_000
/** A larger young heap would save 2% of a chat's CPU time, but cost a gateway 30 MB under load (bench/gateway). */
export const GATEWAY_FLAGS = ['--max-semi-space-size=16']
/** Limits malloc arenas, which retain the memory of threads. */
export const GATEWAY_ENV = { MALLOC_ARENA_MAX: '2' }
/** A worker has one heap per workflow thread. A small young heap keeps the worker below 350 MB (bench/webhooks). */
const WORKER_FLAGS = ['--max-semi-space-size=8', '--optimize-for-size']
/** Half this young heap plus `--optimize-for-size` would save 6 MB, but slow a warm inference by half (bench/warm). */
const NODE_FLAGS = ['--max-semi-space-size=8']
/** The gate only forwards bytes and stores nothing. */
const GATE_FLAGS = ['--max-semi-space-size=2', '--optimize-for-size']
const GATE_HOST = '127.0.0.1'
/** DNS look-ups run on these threads, and each may hang. Without the arena limit each thread would retain memory. */
const WORKER_ENV = { UV_THREADPOOL_SIZE: '64', MALLOC_ARENA_MAX: '2' }

/** Starts the whole platform. On failure, it stops everything it has started, then throws the error. */
export async function startPlatform(
  options: EmbeddedOptions,
  config: Config,
  { quiet = false, signal }: { quiet?: boolean | 'children'; signal?: AbortSignal } = {},
): Promise<Platform> {
  exceptThisMachine(process.env)
  checkFolders(options, config)
  const lock = lockDataDir(options.dataDir)
  const layout = layoutOf(options.dataDir)
  const output = createOutput(layout.logs, { quiet })
  const context: Context = { config, layout, output, children: [], programs: [], signal }
  const readyFiles = [layout.ready, ...(options.readyFile ? [options.readyFile] : [])]
  const stop = async () => {
    await stopInOrder(context)
    lock.release()
  }
  try {
    const ready = await untilAborted(bringUp(options, context), signal)
    for (const file of readyFiles) writeJsonFile(file, ready)
    return {
      ready,
      logs: layout.logs,
      stop: async () => {
        for (const file of readyFiles) rmSync(file, { force: true })
        await stop()
      },
    }
  } catch (err) {
    await stop()
    throw err
  }
}

/** Throws if a folder is not writable, before anything is started. */
function checkFolders({ dataDir, readyFile }: EmbeddedOptions, config: Config): void {
  try {
    usableFolder('HEARTH_DATA_DIR', dataDir)
    usableFolder('HEARTH_CACHE_DIR', config.HEARTH_CACHE_DIR)
    if (readyFile) usableFolder('The folder of --ready-file', dirname(readyFile))
  } catch (cause) {
    throw new StartError((cause as Error).message, { cause })
  }
}

/** Rejects immediately on abort. Work that is still in progress then fails as soon as it tries to start a child. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  work.catch(() => {})
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

async function bringUp(options: EmbeddedOptions, context: Context): Promise<ReadyFile> {
  const { config, layout, output, signal } = context
  const leftovers = await reapLeftovers(layout.run)
  if (leftovers.length > 0)
    output.say(`stopped processes left over from an earlier start: ${leftovers.join(', ')}`)
  if (options.fresh) removeData(layout)
  for (const folder of [layout.run, layout.logs, layout.temporal, layout.objects, layout.node]) {
    mkdirSync(folder, { recursive: true })
  }
  const secrets = loadSecrets(layout.secrets)
  const host = config.HEARTH_HOST
  const port = await apiPort({ host, port: options.port })
  const localBase = localUrl({ host, port })
  const baseUrl = config.HEARTH_BASE_URL ?? localBase
  provideConsole(context)
  const [databaseUrl, temporal] = await Promise.all([startPostgres(context, secrets), startTemporal(context)])
  // Keep the port, so that nodes started separately from this platform find its gate again after a restart.
  const gatePort = await keptPort(layout.gatePort)
  signal?.throwIfAborted()

  const identity = await prepareDatabase(databaseUrl, layout, secrets)
  const common = commonEnv(options, context, secrets, {
    baseUrl,
    localBase,
    temporal: temporal.place,
    gatePort,
    ui: temporal.ui,
  })
  const control = { ...common, DATABASE_URL: databaseUrl }
  const metrics = await metricsPorts(config)
  output.say(`metrics at ${metricsUrls(config, metrics)}`)
  launch(
    context,
    main(
      'api',
      'api/main.ts',
      { ...GATEWAY_ENV, ...control, HEARTH_PORT: String(port), ...onPort(metrics.gateway) },
      GATEWAY_FLAGS,
    ),
  )
  const worker = { ...WORKER_ENV, ...control, ...onPort(metrics.worker) }
  launch(context, main('control', 'workers/control.ts', worker, WORKER_FLAGS))
  const gate = { MALLOC_ARENA_MAX: '2', ...control, ...onPort(metrics.gate) }
  launch(context, main('gate', 'workers/gate.ts', gate, GATE_FLAGS))
  launch(
    context,
    main(
      'node',
      'workers/node.ts',
      {
        MALLOC_ARENA_MAX: '2',
        ...nodeEnv(common),
        HEARTH_NODE_TOKEN: identity.nodeToken,
        ...onPort(metrics.node),
      },
      NODE_FLAGS,
    ),
  )

  const { children } = context
  const at = { localBase, baseUrl, temporal: temporal.place, databaseUrl }
  await waitUntilServing({ ...at, children, logs: layout.logs, say: output.say, signal })
  return {
    base_url: baseUrl,
    api_key: identity.apiKey,
    account_id: identity.accountId,
    operations_key: config.HEARTH_OPERATIONS_KEY || secrets.operations_key,
    evaluator_token: config.HEARTH_EVALUATOR_TOKEN || secrets.evaluator_token,
    temporal_address: temporal.place.address,
    temporal_ui_url: temporal.ui,
    metrics_url: metricsUrl(config, metrics.gateway),
    pid: process.pid,
  }
}

/** Builds the console in the background: its packages come from a registry that may be unreachable. */
function provideConsole({ config, output }: Context): void {
  buildConsole(config.HEARTH_CACHE_DIR, output.say).catch((err: Error) =>
    output.say(
      `the console could not be built; the platform works without it: ${err.message.split('\n')[0]}`,
    ),
  )
}

function launch({ layout, output, children, signal }: Context, spec: ChildSpec): Child {
  signal?.throwIfAborted()
  const child = superviseChild(spec, { runDir: layout.run, output })
  children.push(child)
  return child
}

async function startPostgres(context: Context, secrets: Secrets): Promise<string> {
  const { config, layout, output, signal } = context
  if (config.DATABASE_URL) {
    output.say('PostgreSQL at DATABASE_URL')
    return config.DATABASE_URL
  }
  const [port = 0] = await freePorts(1)
  const cluster = { dataDir: layout.postgres, port, password: secrets.postgres_password }
  const created = initPostgres(cluster, signal)
  context.programs.push(created)
  if (await withProgress('creating the PostgreSQL cluster', output.say, () => created))
    output.say('PostgreSQL: created the database cluster')
  launch(context, await postgresChild(cluster))
  const url = await ensureDatabase(cluster)
  output.say(`PostgreSQL on port ${port}`)
  return url
}

async function startTemporal(context: Context): Promise<{ place: TemporalService; ui: string | null }> {
  const { config, layout, output, signal } = context
  const namespace = config.TEMPORAL_NAMESPACE
  if (config.TEMPORAL_ADDRESS) {
    output.say(`waiting for Temporal at ${config.TEMPORAL_ADDRESS} (TEMPORAL_ADDRESS), at most 30 s`)
    const place = { ...temporalAccess(config), namespace }
    await temporalReady(place, { signal })
    await addSearchAttributes(place)
    output.say(`Temporal at ${config.TEMPORAL_ADDRESS} (TEMPORAL_ADDRESS)`)
    return { place, ui: config.TEMPORAL_UI_URL ?? null }
  }
  const cli = await findTemporalCli(config.HEARTH_CACHE_DIR, output.say, signal)
  const [port = 0, uiPort = 0] = await freePorts(2)
  const file = join(layout.temporal, 'temporal.db')
  const place = localPlace(`127.0.0.1:${port}`, namespace)
  const start = (spec: ChildSpec) => launch(context, spec)
  const { partitions } = await upgradeStore(cli, file, { say: output.say, start, signal })
  const server = { file, port, uiPort, cwd: layout.temporal, namespace, partitions }
  launch(context, temporalChild(cli, server))
  const log = join(layout.logs, 'temporal.log')
  await withProgress('waiting for Temporal', output.say, () =>
    temporalReady(place, { timeoutMs: OWN_SERVER_TIMEOUT_MS, log, signal }),
  )
  output.say(`Temporal on port ${port}, its UI at http://127.0.0.1:${uiPort}`)
  return { place, ui: `http://127.0.0.1:${uiPort}` }
}

/** Returns the spec of a Node child that exits when its pipe from this process closes (die-with-parent.ts). */
function main(name: string, file: string, env: NodeJS.ProcessEnv, flags: string[] = []): ChildSpec {
  const preload = join(import.meta.dirname, 'processes', 'die-with-parent.ts')
  return {
    name,
    command: process.execPath,
    args: [...flags, '--import', preload, join(ROOT, file)],
    env,
    cwd: ROOT,
    stopSignal: 'SIGTERM',
    echo: true,
  }
}

function commonEnv(
  options: EmbeddedOptions,
  { config, layout }: Context,
  secrets: Secrets,
  at: { baseUrl: string; localBase: string; temporal: TemporalService; gatePort: number; ui: string | null },
): NodeJS.ProcessEnv {
  return {
    ...process.env,
    HEARTH_DATA_DIR: options.dataDir,
    HEARTH_CACHE_DIR: config.HEARTH_CACHE_DIR,
    HEARTH_OBJECT_DIR: layout.objects,
    HEARTH_NODE_DIR: layout.node,
    // By default, don't download gigabytes to a machine that may only be used to try Hearth out.
    HEARTH_NODE_PREPARE: process.env['HEARTH_NODE_PREPARE'] ?? 'none',
    HEARTH_BASE_URL: at.baseUrl,
    HEARTH_GATEWAY_URL: at.localBase,
    HEARTH_OPERATIONS_KEY: config.HEARTH_OPERATIONS_KEY || secrets.operations_key,
    HEARTH_EVALUATOR_TOKEN: config.HEARTH_EVALUATOR_TOKEN || secrets.evaluator_token,
    HEARTH_ENCRYPTION_KEYS: config.HEARTH_ENCRYPTION_KEYS.join(',') || secrets.encryption_key,
    TEMPORAL_ADDRESS: at.temporal.address,
    // These settings are for the user's own Temporal server; our embedded one has neither TLS nor a key.
    ...(!config.TEMPORAL_ADDRESS && { TEMPORAL_TLS: '0', TEMPORAL_API_KEY: '' }),
    HEARTH_GATE_HOST: GATE_HOST,
    HEARTH_GATE_PORT: String(at.gatePort),
    HEARTH_GATE_URL: `http://${GATE_HOST}:${at.gatePort}`,
    HEARTH_GATE_TLS_CERT: '',
    HEARTH_GATE_TLS_KEY: '',
    ...(at.ui && { TEMPORAL_UI_URL: at.ui }),
  }
}

/** Settings for the control plane only; nodes reach Temporal through the gate and files through signed URLs. */
const OF_CONTROL =
  /^(DATABASE_URL|TEMPORAL_.*|S3_.*|HEARTH_(OPERATIONS_KEY|ENCRYPTION_KEYS|EVALUATOR_TOKEN|HUB_TOKEN|GATE_.*))$/

/** Returns the environment of a node, without database credentials, the platform's keys, or ways around the gate. */
const nodeEnv = (common: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(common).filter(([name]) => !OF_CONTROL.test(name)))

async function stopInOrder({ children, programs, output }: Context): Promise<void> {
  const deadline = Date.now() + STOP_TIMEOUT_MS
  await Promise.race([
    Promise.allSettled(programs),
    sleep(PROGRAM_EXIT_TIMEOUT_MS, undefined, { ref: false }),
  ])
  for (const [name, graceMs] of STOP_ORDER) {
    const child = children.find((each) => each.name === name)
    if (!child) continue
    const started = Date.now()
    await child.stop(graceMs || deadline - started)
    output.say(`${name} stopped (${Date.now() - started} ms)`)
  }
}

/** Implements `--fresh`: removes everything except this process's lock. */
function removeData(layout: Layout): void {
  const { data: _data, ...parts } = layout
  for (const part of Object.values(parts))
    if (existsSync(part)) rmSync(part, { recursive: true, force: true })
}

/**
 * Returns the port of the API: the requested one, or any free one for 0. Throws a `ConfigError` when it is not
 * available.
 */
async function apiPort(wanted: ListenAddress): Promise<number> {
  try {
    return await (wanted.port === 0 ? freePort(wanted.host) : tryListening(wanted))
  } catch (err) {
    throw listenError(err, wanted)
  }
}

function tryListening({ host, port }: ListenAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, host, () => server.close(() => resolve(port)))
  })
}
