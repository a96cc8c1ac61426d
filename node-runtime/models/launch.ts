import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import type { RuntimeProfile } from '../../schemas/runtime-profile.ts'
import { pythonProcessEnv } from '../environments/python-env.ts'
import { onlyGpus } from '../hardware/nvidia.ts'
import type { ContainerDriver } from '../processes/container-driver.ts'
import type { ProcessDriver, ProcessExit } from '../processes/process-driver.ts'
import { checkModelFolder } from './folder.ts'
import { optionsOf } from './options.ts'

const GPU_LIBRARIES_MB = 4_096
/** A model server writes caches and compiled kernels. */
const LARGEST_FILE_MB = 4_096
const SERVERS_DIR = fileURLToPath(new URL('../servers', import.meta.url))

/** Where a model server listens on this machine. */
export type ServerAddress = { port: number } | { socket: string }

/** A model server under way, whichever driver runs it. */
export interface ServerProcess {
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles once nothing of it is left. */
  readonly exited: Promise<ProcessExit>
  /** Process id of the server on this machine; undefined once it has gone. */
  pid(): Promise<number | undefined>
  /** Why the node ended it, in words. */
  readonly excess?: string | undefined
  /** TERM, then KILL after `graceMs`; resolves when nothing of it is left. */
  stop(options: { graceMs: number }): Promise<ProcessExit>
}

/** Everything that can run a model server on this node. */
export interface Drivers {
  process: ProcessDriver
  /** Absent where no container engine answers. */
  container: ContainerDriver | undefined
}

export interface ModelServerSpec {
  name: string
  profile: RuntimeProfile
  /** Interpreter of the profile's environment; undefined for profiles without one. */
  python: string | undefined
  /** Folder of the profile's npm packages; undefined for profiles without them. */
  packages?: string | undefined
  modelDir: string
  /** The RAM it is expected to take, beside what lies in the temporary folders of a container. */
  ramMb: number
  /** The GPUs, by their number, on which its room is. */
  gpus?: readonly number[]
}

export interface Launched {
  process: ServerProcess
  /** Known before the server says so when the node chose it. */
  address: ServerAddress | undefined
}

/** Starts the command of a profile; whether it can serve is for the caller to find out. */
export async function launch(drivers: Drivers, spec: ModelServerSpec): Promise<Launched> {
  await checkModelFolder(spec.modelDir)
  const options = await optionsOf(spec.profile, spec.modelDir)
  return spec.profile.driver === 'container'
    ? launchContainer(drivers, spec, options)
    : launchProcess(drivers, spec, options)
}

async function launchProcess(
  drivers: Drivers,
  spec: ModelServerSpec,
  options: readonly string[],
): Promise<Launched> {
  const { name, profile, packages, modelDir, ramMb } = spec
  const folder = await drivers.process.makeFolder()
  const socket = join(folder, 'server.sock')
  const hasSocket = profile.command.includes('{socket}')
  const port = profile.ready === 'health' && !hasSocket ? await freePort() : 0
  const child = await drivers.process.start({
    name,
    folder,
    ...processCommand(spec, { port, socket, options }),
    confinement: {
      reads: [modelDir, ...(packages === undefined ? [] : [packages])],
      network: hasSocket ? 'none' : 'listen',
      // What a GPU's own libraries take of the RAM no profile tells.
      memoryMb: memoryLimitMb(profile.vram_mb > 0 ? Math.max(ramMb, GPU_LIBRARIES_MB) : ramMb),
      hasGpu: profile.vram_mb > 0,
      oomScore: 300,
      fileMb: LARGEST_FILE_MB,
    },
  })
  return { process: child, address: hasSocket ? { socket } : port ? { port } : undefined }
}

/** What a model server is started with as a process; on port 0 it chooses one and says so. */
export function processCommand(
  {
    profile,
    python = 'python3',
    packages = '',
    modelDir,
    gpus = [],
  }: Omit<ModelServerSpec, 'name' | 'ramMb'>,
  {
    port = 0,
    socket = '',
    options = [],
  }: { port?: number; socket?: string; options?: readonly string[] } = {},
): { command: string; args: string[]; env: NodeJS.ProcessEnv } {
  const fill = filler(profile, {
    python,
    packages,
    node: process.execPath,
    servers_dir: SERVERS_DIR,
    model_dir: modelDir,
    port: String(port),
    socket,
  })
  const [command = '', ...args] = [...profile.command, ...options].map(fill)
  return {
    command,
    args,
    env: pythonProcessEnv({ ...mapValues(profile.env, fill), ...onlyGpus(profile.vram_mb > 0 ? gpus : []) }),
  }
}

async function launchContainer(
  drivers: Drivers,
  spec: ModelServerSpec,
  options: readonly string[],
): Promise<Launched> {
  const { profile, modelDir } = spec
  if (!drivers.container) throw new Error('no container engine answers on this node')
  if (!profile.image) throw new Error(`the runtime profile ${profile.profile_id} names no image`)
  const fill = filler(profile, { model_dir: '/model', socket: '/run/hearth/server.sock', port: '0' })
  const child = await drivers.container.start({
    name: spec.name,
    image: profile.image,
    command: [...profile.command, ...options].map(fill),
    env: mapValues(profile.env, fill),
    // The socket's folder is the only way in or out of it.
    mounts: [{ source: modelDir, target: '/model', readOnly: true }],
    socketDir: '/run/hearth',
    memoryMb: spec.ramMb + (profile.temporary_mb ?? 0) + (profile.shared_mb ?? 0),
    temporaryMb: profile.temporary_mb,
    sharedMb: profile.shared_mb,
    cpus: threadsOf(profile),
    gpus: profile.requires_gpu ? (spec.gpus ?? []) : [],
    network: false,
  })
  return { process: child, address: { socket: join(child.socketDir, 'server.sock') } }
}

function filler(profile: RuntimeProfile, values: Record<string, string>): (text: string) => string {
  const all: Record<string, string> = {
    ...values,
    threads: String(threadsOf(profile)),
    concurrency: String(profile.max_concurrency),
    tensor_parallel: String(profile.tensor_parallel ?? 1),
    ...(profile.vram_share !== undefined && { vram_share: String(profile.vram_share) }),
  }
  return (text) => text.replace(/\{(\w+)\}/g, (whole, name: string) => all[name] ?? whole)
}

function threadsOf({ threads }: RuntimeProfile): number {
  const cores = availableParallelism()
  return threads === 0 ? Math.max(1, Math.floor(cores / 2)) : Math.min(threads, cores)
}

const mapValues = (record: Record<string, string>, fill: (text: string) => string): Record<string, string> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, fill(value)]))

/** A port that was free a moment ago, for servers that cannot choose one and say so. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
