import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as dispatchRepository from '../../../../db/repositories/nodes/dispatches.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { newId } from '../../../../domain/ids.ts'
import { RecentLogs } from '../../../../node-runtime/control/recent-logs.ts'
import { type Catalog, loadCatalog } from '../../../../platform/catalog.ts'
import { readConfig } from '../../../../platform/config.ts'
import { createLogger } from '../../../../platform/log.ts'
import type { JobClaim } from '../../../../schemas/nodes/lease.ts'
import type { NodeSharing } from '../../../../schemas/nodes/node.ts'
import type { EngineCounts, RuntimeProfile } from '../../../../schemas/nodes/runtime-profile.ts'
import { closeNode, type NodeParts, openNode } from '../../../../workers/node/parts.ts'
import { until } from '../../assertions/until.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import type { TestApi } from '../api.ts'
import { realPython } from './python.ts'

const SERVER = fileURLToPath(new URL('tiny_model_server.py', import.meta.url))

export interface TestNode extends AsyncDisposable {
  readonly parts: NodeParts
  readonly nodeId: string
  readonly dir: string
}

export interface TestNodeOptions {
  memoryMb?: number
  cacheMb?: number
  /** Real memory that a loaded model occupies in addition to its server. */
  ballastMb?: number
  /** The VRAM in the profile; 0 for a model on the CPU. */
  vramMb?: number
  /** The number of requests that one model serves at a time. */
  concurrency?: number
  /** The number of placed work items that it runs at a time. */
  slots?: number
  /** The number of slots that tools and stages share; by default the same as on a real node. */
  sharedSlots?: number
  /** True to poll the queues of jobs as well, in worlds with queues. */
  jobs?: boolean
  /** Seconds after which a model without requests is unloaded; none by default. */
  idleUnloadS?: number
  /** The share of RAM for sleeping models, in percent; by default the same as on a real node. */
  sleepPct?: number
  /** Seconds of silence after which a load fails. */
  startTimeoutS?: number
  /** Models that it keeps loaded. */
  pinned?: string[]
  dir?: string
  token?: string
  /** The node's account; by default the one whose nodes may load models from `addModel`. */
  accountId?: string
  sharing?: NodeSharing
  /** True to include the tools of the catalog. */
  tools?: boolean
  /** The socket of a container engine. */
  containerSocket?: string
  /** True to use the project's catalog instead of the tiny model server; `both` to use both. */
  realCatalog?: boolean | 'both'
  /** Profiles of the project's catalog that it leaves out, such as those whose environment would take minutes to install. */
  leaveOut?: string[]
  /** A model server other than the tiny one, with the path of its requests and its first request. */
  server?: {
    command: string[]
    inferPath: string
    warmupInput?: object
    servedModel?: string
    pythonEnv?: string
    engineCounts?: EngineCounts
  }
  /** The kind of the tiny profile's models, and other profiles in the node's catalog. */
  modelKind?: string
  otherProfiles?: RuntimeProfile[]
  /** The space for hand-over payloads. */
  edgeMb?: number
  /** The environments that it prepares, the folder of their lock files, and their installation folder. */
  prepare?: string
  locksDir?: string
  cacheDir?: string
}

/** Starts a real node on a real gateway, without its Temporal workers; its models come from `addModel`. */
export async function startNode(api: TestApi, options: TestNodeOptions = {}): Promise<TestNode> {
  await using stack = new AsyncDisposableStack()
  const dir = options.dir ?? stack.use(temporaryFolder()).path
  const { db } = api.database
  const accountId = options.accountId ?? (await ownerAccount(api))
  const config = readConfig({
    HEARTH_GATEWAY_URL: api.baseUrl,
    HEARTH_NODE_TOKEN:
      options.token ??
      (await nodeRepository.createNodeToken(db, { accountId, sharing: options.sharing ?? 'shared' })),
    HEARTH_NODE_DIR: dir,
    HEARTH_NODE_NAME: 'test-node',
    HEARTH_NODE_MEMORY_MB: String(options.memoryMb ?? 1_000),
    HEARTH_NODE_CACHE_MB: String(options.cacheMb ?? 1_000),
    HEARTH_IDLE_UNLOAD_S: String(options.idleUnloadS ?? 0),
    ...(options.sleepPct !== undefined && { HEARTH_NODE_SLEEP_PCT: String(options.sleepPct) }),
    ...(options.edgeMb && { HEARTH_NODE_EDGE_MB: String(options.edgeMb) }),
    HEARTH_NODE_PINNED: options.pinned?.join(',') ?? '',
    ...(options.containerSocket && { HEARTH_CONTAINER_SOCKET: options.containerSocket }),
    HEARTH_NODE_PREPARE: options.prepare ?? 'none',
    ...(options.cacheDir && { HEARTH_CACHE_DIR: options.cacheDir }),
  })
  const log = createLogger('test-node', process.env.HEARTH_LOG_LEVEL ?? 'silent')
  const tiny = () => tinyCatalog(join(dir, 'catalog'), options)
  const models =
    options.realCatalog === 'both'
      ? joined(loadCatalog(), tiny())
      : options.realCatalog
        ? loadCatalog()
        : tiny()
  const { leaveOut = [] } = options
  const profiles = models.profiles.filter(({ profile_id }) => !leaveOut.includes(profile_id))
  const catalog = { ...models, profiles, tools: options.tools ? loadCatalog().tools : [] }
  let draining = false
  const parts = await openNode(config, log, {
    catalog,
    lines: new RecentLogs(),
    locksDir: options.locksDir,
    isDraining: () => draining,
    gateFault: () => undefined,
    onDraining: (value) => (draining = value),
    onSharing: () => {},
    onNoLink: () => {},
  })
  stack.defer(() => closeNode(parts))
  const { nodeId } = parts.identity
  await until(() => api.services.links.snapshot().some(({ node_id }) => node_id === nodeId))
  const opened = stack.move()
  return { parts, nodeId, dir, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

/** Claims a job as a node does after the gate has dispatched it. */
export async function claimOn(api: TestApi, { parts, nodeId }: TestNode, jobId: string): Promise<JobClaim> {
  await dispatchRepository.recordDispatch(api.database.db, { kind: 'job', subjectId: jobId, nodeId })
  return parts.control.claimJob<JobClaim>(jobId, { lease_s: 30 })
}

/** The default owner of test nodes and models; these nodes may load these models because the owner is the same. */
async function ownerAccount({ database: { db } }: TestApi): Promise<string> {
  const id = '00000000-0000-7000-8000-000000000001'
  await db
    .insertInto('account')
    .values({ id, name: 'owner' })
    .onConflict((oc) => oc.doNothing())
    .execute()
  return id
}

const joined = (one: Catalog, other: Catalog): Catalog => ({
  ...one,
  profiles: [...one.profiles, ...other.profiles],
  profile: (id) => one.profile(id) ?? other.profile(id),
})

function tinyCatalog(
  directory: string,
  {
    ballastMb = 0,
    vramMb = 0,
    concurrency = 8,
    startTimeoutS = 10,
    server,
    modelKind,
    otherProfiles = [],
  }: TestNodeOptions,
) {
  mkdirSync(join(directory, 'runtime-profiles'), { recursive: true })
  mkdirSync(join(directory, 'model-configs'), { recursive: true })
  const profile = {
    profile_id: 'tiny',
    display_name: 'Tiny model server',
    description: 'For tests.',
    driver: 'process',
    python_env: server?.pythonEnv ?? null,
    command: server?.command ?? [realPython(), SERVER, '{model_dir}', String(ballastMb)],
    env: {},
    health_path: '/health',
    infer_path: server?.inferPath ?? '/infer',
    ...(server?.warmupInput && { warmup_input: server.warmupInput }),
    ...(server?.engineCounts && { engine_counts: server.engineCounts }),
    ...(server?.servedModel && { served_model: server.servedModel }),
    task_types: ['echo'],
    ...(modelKind && { model_kind: modelKind }),
    ...(modelKind === 'llm/safetensors' && { framework: 'transformers' }),
    requires_gpu: false,
    memory_mb: 50,
    vram_mb: vramMb,
    threads: 1,
    max_concurrency: concurrency,
    start_timeout_s: startTimeoutS,
    stop_grace_s: 0.2,
  }
  for (const one of [profile, ...otherProfiles])
    writeFileSync(join(directory, 'runtime-profiles', `${one.profile_id}.json`), JSON.stringify(one))
  return loadCatalog(directory)
}

/** Adds a model version for the tiny runtime to the database and the object store; returns its key. */
export async function addModel(
  api: TestApi,
  weights: {
    name: string
    load_s?: number
    steps?: number
    broken?: boolean
    /** The server writes one line of this many megabytes and fails. */
    line_mb?: number
    /** The server reports that the weights are unusable. */
    unusable?: boolean
    padding?: string
    /** For fake language models: the only model name that they accept. */
    served?: string
    echo?: boolean
    /** For fake language models: the number of requests that they run at once; others wait in the server. */
    runs?: number
    /** For fake embedding models: whether they accept lists of strings. */
    batches?: boolean
    /** For the fake vLLM: every request fails, or falling asleep, or waking up that many times. */
    fails?: boolean
    sleep_fails?: boolean
    wake_fails?: number
    /** For the fake vLLM: seconds that waking up takes. */
    wake_s?: number
    /** For the fake vLLM: it does not start with support for adapters. */
    no_lora?: boolean
  },
  {
    memoryMb = 50,
    config,
    adapter,
    gguf,
  }: {
    memoryMb?: number
    config?: object
    gguf?: Buffer
    /** The config of the adapter that was merged into the weights. */ adapter?: object
  } = {},
): Promise<string> {
  const { db, objects } = api.services
  const modelKey = `${weights.name}-${newId().slice(-8)}`
  const accountId = await ownerAccount(api)
  const id = newId()
  await db
    .insertInto('model_version')
    .values({
      id,
      account_id: accountId,
      model_key: modelKey,
      name: weights.name,
      model_config_id: 'tiny',
      runtime_profile: 'tiny',
      memory_mb: memoryMb,
      input_schema: '{}',
      output_schema: '{}',
      example_input: '{"instances":[1]}',
      example_output: '{"predictions":[1]}',
    })
    .execute()
  const files = {
    'weights.json': weights,
    ...(config && { 'config.json': config }),
    ...(adapter && { 'adapter/adapter_config.json': adapter, 'adapter/adapter_model.safetensors': {} }),
  }
  const contents = Object.entries(files).map(
    ([path, content]) => [path, Buffer.from(JSON.stringify(content))] as const,
  )
  for (const [path, bytes] of [...contents, ...(gguf ? [['model.gguf', gguf] as const] : [])]) {
    const object_key = `versions/${id}/${path}`
    await objects.put(object_key, bytes, { contentType: 'application/json' })
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    await db
      .insertInto('version_file')
      .values({ version_id: id, path, object_key, size_bytes: bytes.length, sha256 })
      .execute()
  }
  return modelKey
}

export { until }
