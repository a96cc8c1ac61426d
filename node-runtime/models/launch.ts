import { mkdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type ContextShape, tokensIn } from '../../domain/models/context-memory.ts'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import { servingArguments } from '../../domain/serving.ts'
import { freePort } from '../../platform/free-ports.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import { pythonProcessEnv } from '../environments/python-env.ts'
import { onlyGpus } from '../hardware/nvidia.ts'
import type { ContainerDriver } from '../processes/container-driver.ts'
import type { ProcessDriver, ProcessExit } from '../processes/process-driver.ts'
import { ggufIn } from './context-shape.ts'
import { checkModelFolder } from './folder.ts'
import { optionsOf } from './options.ts'

const GPU_LIBRARIES_MB = 4_096
/** The limit for one file: model servers write caches and compiled kernels. */
const MAX_FILE_MB = 4_096
const SERVERS_DIR = fileURLToPath(new URL('../servers', import.meta.url))

/** The address at which a model server listens on this machine. */
export type ServerAddress = { port: number } | { socket: string }

/** A running model server, under either driver. */
export interface ServerProcess {
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles once the whole process tree has exited. */
  readonly exited: Promise<ProcessExit>
  /** The process id of the server on this machine; undefined once it has exited. */
  pid(): Promise<number | undefined>
  /** The message that explains why the node ended the server. */
  readonly excess?: string | undefined
  /** Sends TERM, then KILL after `graceMs`; resolves when the whole process tree has exited. */
  stop(options: { graceMs: number }): Promise<ProcessExit>
}

/** The drivers that can run a model server on this node. */
export interface Drivers {
  process: ProcessDriver
  /** Absent without a container engine. */
  container: ContainerDriver | undefined
}

export interface ModelServerSpec {
  name: string
  profile: RuntimeProfile
  /** The interpreter of the profile's environment; undefined for profiles without one. */
  python: string | undefined
  /** The folder of the profile's npm packages; undefined for profiles without them. */
  packages?: string | undefined
  modelDir: string
  /** The output folder of the model's conversion, if there is one. */
  convertedDir?: string | undefined
  /** The expected RAM in MB, apart from the temporary folders of a container. */
  ramMb: number
  /** The `device` of each GPU on which memory is reserved for the model. */
  gpus?: readonly string[]
  /** The share of each GPU that the server may claim; by default the profile's maximum. */
  vramShare?: number | undefined
  /** The memory in MB for the context of a server that fits it. */
  contextMb?: number | undefined
  /** The shape of the model's context, if it is known. */
  context?: ContextShape | undefined
  /** The folder for compiled kernels, which is kept for later loads of the model. */
  compileDir?: string | undefined
  /** The empty folder for the adapters that the server is to accept. */
  adaptersDir?: string | undefined
  /** The GGUF file in the model's folder. */
  gguf?: string | undefined
  /** The settings of the model's endpoint. */
  serving?: Serving | undefined
}

/** A folder on this machine, and its path for a server. */
export interface AdapterFolder {
  dir: string
  path: string
}

export interface LaunchedServer {
  process: ServerProcess
  /** Known before the ready line when the node chose the address. */
  address: ServerAddress | undefined
  /** The folder for payload files that the node and this server exchange; undefined for containers. */
  exchangeDir?: string
  adapters?: AdapterFolder | undefined
}

/** Starts the command of a profile. The caller has to check whether the server becomes ready. */
export async function launch(drivers: Drivers, spec: ModelServerSpec): Promise<LaunchedServer> {
  await checkModelFolder(spec.modelDir)
  const found = await optionsOf(spec.profile, spec.modelDir)
  const { adapters, env } = spec.profile
  const isHost = adapters !== undefined && spec.adaptersDir !== undefined
  const options = [
    ...found,
    ...(isHost ? adapters.options : []),
    ...servingArguments(spec.profile, servingWithin(spec)),
  ]
  const profile = isHost ? { ...spec.profile, env: { ...env, ...adapters.env } } : spec.profile
  return profile.driver === 'container'
    ? launchContainer(drivers, { ...spec, profile }, options)
    : launchProcess(drivers, { ...spec, profile }, options)
}

/** Returns the settings of an endpoint, with a length of at most the model's own context, where that is known. */
function servingWithin({ serving, context }: ModelServerSpec): Serving | undefined {
  if (serving?.max_model_len === undefined || !context) return serving
  // llama-server would allocate the memory for tokens that the model cannot use.
  return { ...serving, max_model_len: Math.min(serving.max_model_len, context.length) }
}

async function launchProcess(
  drivers: Drivers,
  spec: ModelServerSpec,
  options: readonly string[],
): Promise<LaunchedServer> {
  const { name, profile, packages, modelDir, convertedDir, compileDir, adaptersDir, ramMb, gpus = [] } = spec
  const folder = await drivers.process.makeFolder()
  const socket = join(folder, 'server.sock')
  // A server can write only to its own folder, which no other server can see.
  const exchangeDir = join(folder, 'exchange')
  await mkdir(exchangeDir, { mode: 0o700 })
  const hasSocket = profile.command.includes('{socket}')
  const port = profile.ready === 'health' && !hasSocket ? await freePort() : 0
  const child = await drivers.process.start({
    name,
    folder,
    ...processCommand({ ...spec, gguf: await ggufIn(modelDir) }, { port, socket, exchangeDir, options }),
    confinement: {
      reads: [modelDir, packages, convertedDir, adaptersDir].filter((path) => path !== undefined),
      ...(compileDir !== undefined && { writes: [compileDir] }),
      network: hasSocket ? 'none' : 'listen',
      // Profiles don't state the RAM usage of GPU libraries.
      memoryMb: memoryLimitMb(profile.vram_mb > 0 ? Math.max(ramMb, GPU_LIBRARIES_MB) : ramMb),
      hasGpu: profile.vram_mb > 0 && gpus.length > 0,
      oomScore: 300,
      fileMb: MAX_FILE_MB,
    },
  })
  const address = hasSocket ? { socket } : port ? { port } : undefined
  const adapters = adaptersDir === undefined ? undefined : { dir: adaptersDir, path: adaptersDir }
  return { process: child, address, exchangeDir, adapters }
}

/**
 * Returns the command line and environment of a model server that runs as a process. On port 0 the server
 * chooses a port and prints it.
 */
export function processCommand(
  {
    profile,
    python = 'python3',
    packages = '',
    modelDir,
    convertedDir = '',
    gpus = [],
    vramShare,
    contextMb = 0,
    context,
    gguf = '',
    compileDir = '',
  }: Omit<ModelServerSpec, 'name' | 'ramMb'>,
  {
    port = 0,
    socket = '',
    exchangeDir = '',
    options = [],
  }: { port?: number; socket?: string; exchangeDir?: string; options?: readonly string[] } = {},
): { command: string; args: string[]; env: NodeJS.ProcessEnv } {
  const fill = filler(profile, {
    python,
    packages,
    node: process.execPath,
    servers_dir: SERVERS_DIR,
    model_dir: modelDir,
    converted_dir: convertedDir,
    port: String(port),
    socket,
    exchange_dir: exchangeDir,
    compile_dir: compileDir,
    gguf,
    cache_mb: String(contextMb),
    context_tokens: String(context ? tokensIn(context, contextMb, profile.max_concurrency) : 0),
    ...(vramShare !== undefined && { vram_share: String(vramShare) }),
  })
  const [command = '', ...args] = [...profile.command, ...options].map(fill)
  return {
    command,
    args,
    env: pythonProcessEnv({ ...mapValues(profile.env, fill), ...onlyGpus(profile.vram_mb > 0 ? gpus : []) }),
  }
}

/** Returns the command line and environment of a program that processes a model's files without a GPU. */
export function commandOf({
  profile,
  template,
  python = 'python3',
  values,
}: {
  profile: RuntimeProfile
  template: readonly string[]
  python: string | undefined
  values: Record<string, string>
}): { command: string; args: string[]; env: NodeJS.ProcessEnv } {
  const fill = filler(profile, { python, servers_dir: SERVERS_DIR, ...values })
  const [command = '', ...args] = template.map(fill)
  return { command, args, env: pythonProcessEnv({ ...mapValues(profile.env, fill), ...onlyGpus([]) }) }
}

async function launchContainer(
  drivers: Drivers,
  spec: ModelServerSpec,
  options: readonly string[],
): Promise<LaunchedServer> {
  const { profile, modelDir } = spec
  if (!drivers.container) throw new Error('no container engine is available on this node')
  if (!profile.image) throw new Error(`the runtime profile ${profile.profile_id} has no image`)
  const fill = filler(profile, {
    model_dir: '/model',
    socket: '/run/hearth/server.sock',
    port: '0',
    compile_dir: '/compiled',
    ...(spec.vramShare !== undefined && { vram_share: String(spec.vramShare) }),
  })
  const child = await drivers.container.start({
    name: spec.name,
    image: profile.image,
    command: [...profile.command, ...options].map(fill),
    env: mapValues(profile.env, fill),
    // The container has no network; the folder of the socket is the only connection to it.
    mounts: [
      { source: modelDir, target: '/model', readOnly: true },
      ...(spec.compileDir === undefined
        ? []
        : [{ source: spec.compileDir, target: '/compiled', readOnly: false }]),
      ...(spec.adaptersDir === undefined
        ? []
        : [{ source: spec.adaptersDir, target: '/adapters', readOnly: true }]),
    ],
    socketDir: '/run/hearth',
    memoryMb: spec.ramMb + (profile.temporary_mb ?? 0) + (profile.shared_mb ?? 0),
    temporaryMb: profile.temporary_mb,
    sharedMb: profile.shared_mb,
    cpus: threadsOf(profile),
    gpus: profile.requires_gpu ? (spec.gpus ?? []) : [],
    network: false,
  })
  const adapters = spec.adaptersDir === undefined ? undefined : { dir: spec.adaptersDir, path: '/adapters' }
  return { process: child, address: { socket: join(child.socketDir, 'server.sock') }, adapters }
}

function filler(profile: RuntimeProfile, values: Record<string, string>): (text: string) => string {
  const all: Record<string, string> = {
    ...(profile.vram_share !== undefined && { vram_share: String(profile.vram_share) }),
    ...values,
    threads: String(threadsOf(profile)),
    concurrency: String(profile.max_concurrency),
    tensor_parallel: String(profile.tensor_parallel ?? 1),
  }
  return (text) => text.replace(/\{(\w+)\}/g, (whole, name: string) => all[name] ?? whole)
}

function threadsOf({ threads }: RuntimeProfile): number {
  const cores = availableParallelism()
  return threads === 0 ? Math.max(1, Math.floor(cores / 2)) : Math.min(threads, cores)
}

const mapValues = (record: Record<string, string>, fill: (text: string) => string): Record<string, string> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, fill(value)]))
