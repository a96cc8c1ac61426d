import type { ExecFileException } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from '../../platform/processes/run-program.ts'
import type { Gpu, GpuRestriction } from '../../schemas/nodes/node.ts'
import { type DriverGpu, visibleGpus } from './visible-gpus.ts'

const QUERY_TIMEOUT_MS = 10_000
/** Without persistence mode, the driver first initializes every GPU of a large machine. */
const INVENTORY_TIMEOUT_MS = 60_000
/**
 * nvidia-smi's exit statuses for no device, no driver and no library, as on a machine where only the program is
 * installed.
 */
const NOTHING_THERE: readonly unknown[] = [6, 9, 12]
const PCI_DEVICES = '/sys/bus/pci/devices'
const NVIDIA = '0x10de'
const DISPLAY_CLASS = '0x03'
const MAX_REASON = 200
/** The name of a MIG profile contains its memory in whole GB; an instance has a little less: 4,864 MB for `1g.5gb`. */
const MIG_MB_PER_GB = 0.95 * 1_024

/** The GPUs of a node. */
export interface GpuInventory {
  gpus: Gpu[]
  restriction?: GpuRestriction
  /** Why no GPU was found, although the machine seems to have some. */
  failure?: string
}

/** Returns the GPUs of this machine that its CUDA_VISIBLE_DEVICES leaves to the node; none without a driver. */
export async function findGpus(): Promise<GpuInventory> {
  const variable = process.env['CUDA_VISIBLE_DEVICES']
  const { gpus, failure } = await driverGpus()
  // If the operator hides all GPUs from the node, finding none isn't a failure.
  const isNone = variable !== undefined && ['', '-1'].includes(variable.trim())
  return { ...visibleGpus(gpus, variable), ...(failure !== undefined && !isNone && { failure }) }
}

/** Returns whether the machine has an NVIDIA GPU on its PCI bus, with or without a driver. */
export async function hasNvidiaDevice(folder = PCI_DEVICES): Promise<boolean> {
  const textOf = (name: string, file: string) => readFile(join(folder, name, file), 'utf8').catch(() => '')
  const devices = await Promise.all(
    (await readdir(folder).catch(() => [])).map(
      async (name) =>
        (await textOf(name, 'vendor')).startsWith(NVIDIA) &&
        (await textOf(name, 'class')).startsWith(DISPLAY_CLASS),
    ),
  )
  return devices.includes(true)
}

/** Returns the memory in MB that these processes use on all GPUs together; undefined when the driver does not report it. */
export async function gpuMemoryMb(pids: readonly number[]): Promise<number | undefined> {
  const byPid = await gpuMemoryByPid()
  return byPid && totalOf(byPid, pids)
}

/** Returns the sum over these processes; undefined for a driver without accounting, which reports `[N/A]`. */
export function totalOf(byPid: ReadonlyMap<number, number>, pids: readonly number[]): number | undefined {
  const total = pids.reduce((sum, pid) => sum + (byPid.get(pid) ?? 0), 0)
  return Number.isNaN(total) ? undefined : total
}

/** Returns the memory in MB of each process on all GPUs together; undefined when the driver does not report it. */
export async function gpuMemoryByPid(): Promise<ReadonlyMap<number, number> | undefined> {
  const rows = await query('--query-compute-apps=pid,used_gpu_memory')
  if (!rows) return undefined
  const byPid = new Map<number, number>()
  for (const [pid, memory] of rows) byPid.set(Number(pid), (byPid.get(Number(pid)) ?? 0) + Number(memory))
  return byPid
}

/**
 * Returns the environment variables that restrict a program to these GPUs, given as their `device`. A program
 * without a reservation sees none, because it would take memory that other models count on.
 */
export const onlyGpus = (devices: readonly string[]): Record<string, string> => ({
  // By default CUDA lists the fastest GPU first, but nvidia-smi lists GPUs by bus.
  ...(devices.length > 0 && { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', HEARTH_DEVICE: 'cuda' }),
  CUDA_VISIBLE_DEVICES: devices.join(),
})

/** Returns the CUDA_VISIBLE_DEVICES name of each of these GPUs; older nodes only knew their positions. */
export const devicesOf = (gpus: readonly Gpu[]): string[] =>
  gpus.map(({ device }, position) => device ?? String(position))

/** Divides a memory budget among the GPUs, in proportion to their memory. */
export function gpuBudgets(gpus: readonly Gpu[], budgetMb: number): number[] {
  const all = gpus.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
  // When the driver reports no sizes, the operator's budget is divided evenly.
  if (all === 0) return gpus.map(() => Math.floor(budgetMb / gpus.length))
  return gpus.map(({ memory_mb }) => Math.floor((memory_mb * Math.min(budgetMb, all)) / all))
}

async function driverGpus(): Promise<{ gpus: DriverGpu[]; failure?: string }> {
  const fields = '--query-gpu=name,memory.total,uuid'
  const list = (which: string) => run([which, FORMAT], INVENTORY_TIMEOUT_MS)
  let listed = await list(`${fields},mig.mode.current`)
  // Drivers older than MIG reject a query that names it.
  if (listed.out === undefined && !listed.isLate) listed = await list(fields)
  if (listed.out === undefined) {
    const failure = await failureOf(listed)
    return { gpus: [], ...(failure !== undefined && { failure }) }
  }
  // Some drivers print that there is no device, and exit with status 0.
  const rows = rowsOf(listed.out).filter(({ length }) => length > 1)
  const isDivided = ([, , , mode]: string[]) => mode === 'Enabled'
  const instances = rows.some(isDivided) ? await migInstances() : new Map<string, never>()
  const gpus = rows.map((row) => {
    const [name = '', memory = '', uuid] = row
    const gpu = { name, memory_mb: Number(memory) || 0, uuid: uuid?.startsWith('GPU-') ? uuid : undefined }
    return isDivided(row) ? { ...gpu, instances: instances.get(gpu.uuid ?? '') ?? [] } : gpu
  })
  return { gpus }
}

/** Returns why a machine with GPUs shows none; undefined for a machine without them. */
async function failureOf({ status, isLate, said }: ProgramResult): Promise<string | undefined> {
  if (status === 'ENOENT') return undefined
  if (NOTHING_THERE.includes(status) && !(await hasNvidiaDevice())) return undefined
  const how = isLate ? `did not answer within ${INVENTORY_TIMEOUT_MS / 1_000} s` : `ended with ${status}`
  const why = said ? ` (${said})` : ''
  return `nvidia-smi ${how}${why}, so the node found no GPU and runs on its CPU. Restart the node once nvidia-smi lists its GPUs`
}

/** Returns the MIG instances by the UUID of their GPU. No query returns them, only the human-readable list. */
async function migInstances(): Promise<Map<string, NonNullable<DriverGpu['instances']>>> {
  const found = new Map<string, { name: string; memory_mb: number; uuid: string }[]>()
  let gpu: { name: string; instances: { name: string; memory_mb: number; uuid: string }[] } | undefined
  for (const line of ((await run(['-L'], INVENTORY_TIMEOUT_MS)).out ?? '').split('\n')) {
    const uuid = /\(UUID: ([^)\s]+)\)/.exec(line)?.[1]
    const name = /^GPU \d+: (.+) \(UUID/.exec(line)?.[1]
    const profile = /^\s+MIG (\S+)\s+Device/.exec(line)?.[1]
    if (uuid && name) {
      gpu = { name, instances: [] }
      found.set(uuid, gpu.instances)
    } else if (uuid && profile && gpu) {
      const memory_mb = Math.floor(Number(/(\d+)gb/.exec(profile)?.[1] ?? 0) * MIG_MB_PER_GB)
      gpu.instances.push({ name: `${gpu.name} MIG ${profile}`, memory_mb, uuid })
    }
  }
  return found
}

/** Returns the rows of nvidia-smi's output; undefined when it fails. */
async function query(what: string): Promise<string[][] | undefined> {
  const { out } = await run([what, FORMAT], QUERY_TIMEOUT_MS)
  return out === undefined ? undefined : rowsOf(out)
}

const FORMAT = '--format=csv,noheader,nounits'

const rowsOf = (out: string): string[][] =>
  out
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(',').map((part) => part.trim()))

/** The outcome of nvidia-smi: its output, or how it failed. */
interface ProgramResult {
  out?: string
  status?: number | string
  isLate?: boolean
  /** The first line of its output. */
  said?: string
}

async function run(args: string[], timeout: number): Promise<ProgramResult> {
  try {
    return { out: (await runProgram('nvidia-smi', args, { timeout })).stdout }
  } catch (err) {
    const { code, signal, killed, stdout = '', stderr = '' } = err as ExecFileException & Partial<Output>
    const said = `${stdout}\n${stderr}`.trim().split('\n')[0]?.trim().slice(0, MAX_REASON) ?? ''
    return { status: code ?? signal ?? 'no status', isLate: killed === true, said }
  }
}

interface Output {
  stdout: string
  stderr: string
}
