import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as dispatchRepository from '../../../db/repositories/nodes/dispatches.ts'
import * as nodeRepository from '../../../db/repositories/nodes/nodes.ts'
import { newId } from '../../../domain/ids.ts'
import { RecentLines } from '../../../node-runtime/control/recent-lines.ts'
import { type Catalog, loadCatalog } from '../../../platform/catalog.ts'
import { readConfig } from '../../../platform/config.ts'
import { createLogger } from '../../../platform/log.ts'
import type { JobClaim } from '../../../schemas/lease.ts'
import type { NodeSharing } from '../../../schemas/node.ts'
import type { EngineCounts } from '../../../schemas/runtime-profile.ts'
import { closeNode, type NodeParts, openNode } from '../../../workers/node/parts.ts'
import { until } from '../assertions/until.ts'
import { temporaryFolder } from '../builders/temporary-folder.ts'
import type { TestApi } from './api.ts'
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
  /** Real memory that a loaded model holds on top of its server's own. */
  ballastMb?: number
  /** The VRAM in the profile; 0 for a model on the CPU. */
  vramMb?: number
  /** The number of requests that one model serves at a time. */
  concurrency?: number
  /** The placed pieces of work that it takes at a time. */
  slots?: number
  /** The slots that tools and stages share, as on a node with so many; by default those of a real node. */
  sharedSlots?: number
  /** True to poll the queues of jobs as well, in worlds with queues. */
  jobs?: boolean
  /** Seconds after which a model without requests is unloaded; none by default. */
  idleUnloadS?: number
  /** Silence after which a load is given up. */
  startTimeoutS?: number
  /** Models that it keeps loaded. */
  pinned?: string[]
  dir?: string
  token?: string
  /** The account of the node, which may load models of `addModel` when absent. */
  accountId?: string
  sharing?: NodeSharing
  /** True to have the tools of the catalog as well. */
  tools?: boolean
  /** The socket of a container engine. */
  containerSocket?: string
  /** True to use the project's own catalog instead of the tiny model server; `both` to have that as well. */
  realCatalog?: boolean | 'both'
  /** A model server other than the tiny one, with the path of its requests and its first request. */
  server?: {
    command: string[]
    inferPath: string
    warmupInput?: object
    servedModel?: string
    pythonEnv?: string
    engineCounts?: EngineCounts
  }
  /** The room for what stages hand over. */
  edgeMb?: number
  /** The environments that it prepares, the folder of their locks, and the folder they are installed in. */
  prepare?: string
  locksDir?: string
  cacheDir?: string
}

/** A real node over a real gateway, all but its Temporal workers; its models are those of `addModel`. */
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
  const catalog = { ...models, tools: options.tools ? loadCatalog().tools : [] }
  let draining = false
  const parts = await openNode(config, log, {
    catalog,
    lines: new RecentLines(),
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

/** Claims a job as a node does after the gate has handed it over. */
export async function claimOn(api: TestApi, { parts, nodeId }: TestNode, jobId: string): Promise<JobClaim> {
  await dispatchRepository.recordDispatch(api.database.db, { kind: 'job', subjectId: jobId, nodeId })
  return parts.control.claimJob<JobClaim>(jobId, { lease_s: 30 })
}

/** Owns the nodes and models of tests that do not say otherwise, so that these nodes may load these models by themselves. */
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
  { ballastMb = 0, vramMb = 0, concurrency = 8, startTimeoutS = 10, server }: TestNodeOptions,
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
    requires_gpu: false,
    memory_mb: 50,
    vram_mb: vramMb,
    threads: 1,
    max_concurrency: concurrency,
    start_timeout_s: startTimeoutS,
    stop_grace_s: 0.2,
  }
  writeFileSync(join(directory, 'runtime-profiles', 'tiny.json'), JSON.stringify(profile))
  return loadCatalog(directory)
}

/** Adds a version of the tiny runtime to the database and the object store; returns its key. */
export async function addModel(
  api: TestApi,
  weights: {
    name: string
    load_s?: number
    steps?: number
    broken?: boolean
    /** Its server writes one line of this many megabytes and fails. */
    line_mb?: number
    /** Its server says that nothing can be done with them. */
    unusable?: boolean
    padding?: string
    /** For fake language models: the only name that they accept, or that they respond under the caller's. */
    served?: string
    echo?: boolean
    /** For fake language models: how many requests they run at once; the others wait in them. */
    runs?: number
    /** For fake models of embeddings: whether they take lists of texts. */
    batches?: boolean
  },
  { memoryMb = 50 }: { memoryMb?: number } = {},
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
  const bytes = Buffer.from(JSON.stringify(weights))
  const object_key = `versions/${id}/weights.json`
  await objects.put(object_key, bytes, { contentType: 'application/json' })
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  await db
    .insertInto('version_file')
    .values({ version_id: id, path: 'weights.json', object_key, size_bytes: bytes.length, sha256 })
    .execute()
  return modelKey
}

export { until }
