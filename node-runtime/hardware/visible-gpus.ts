import { at } from '../../domain/at.ts'
import type { Gpu, GpuRestriction } from '../../schemas/nodes/node.ts'

/** A GPU as nvidia-smi lists it. */
export interface DriverGpu {
  name: string
  memory_mb: number
  /** Absent if the driver reports none. */
  uuid: string | undefined
  /** Its MIG instances; absent while MIG is off. */
  instances?: readonly { name: string; memory_mb: number; uuid: string }[]
}

type Device = Gpu & { device: string }

const MAX_LISTED = 64
const MAX_ENTRY_LENGTH = 100
const MAX_VARIABLE_LENGTH = 1_000

/**
 * Returns the GPUs that CUDA would show to a program with this `CUDA_VISIBLE_DEVICES`, and the ones it would hide;
 * nvidia-smi ignores the variable. A GPU in MIG mode is replaced by its instances, because CUDA can't use all of it.
 *
 * @param variable undefined when it is not set, which shows everything.
 */
export function visibleGpus(
  driver: readonly DriverGpu[],
  variable: string | undefined,
): { gpus: Device[]; restriction?: GpuRestriction } {
  const all = driver.map(devicesOf)
  const { gpus, ignored } =
    variable === undefined ? { gpus: all.flat(), ignored: [] } : select(variable, driver, all)
  const isChosen = ({ device }: Device) => gpus.some((gpu) => gpu.device === device)
  const leftOut = driver.flatMap((gpu, index) =>
    gpu.instances?.length === 0
      ? [`${index} (${gpu.name}, MIG without an instance)`]
      : at(all, index)
          .filter((one) => !isChosen(one))
          .map(({ name }) => `${index} (${name})`),
  )
  if (leftOut.length === 0 && ignored.length === 0) return { gpus }
  return {
    gpus,
    restriction: {
      cuda_visible_devices: variable?.slice(0, MAX_VARIABLE_LENGTH) ?? null,
      left_out: leftOut.slice(0, MAX_LISTED),
      ignored: ignored.slice(0, MAX_LISTED).map((entry) => entry.slice(0, MAX_ENTRY_LENGTH)),
    },
  }
}

/** Returns the parts of a GPU on which a program can compute, named as in CUDA_VISIBLE_DEVICES. */
function devicesOf({ name, memory_mb, uuid, instances }: DriverGpu, index: number): Device[] {
  if (!instances) return [{ name, memory_mb, device: uuid ?? String(index) }]
  return instances.map((one) => ({ name: one.name, memory_mb: one.memory_mb, device: one.uuid }))
}

/** Parses the variable as CUDA does: the first entry that names no GPU ends the list. */
function select(
  variable: string,
  driver: readonly DriverGpu[],
  all: readonly (readonly Device[])[],
): { gpus: Device[]; ignored: string[] } {
  const entries = variable.split(',').map((entry) => entry.trim())
  const gpus: Device[] = []
  for (const [i, entry] of entries.entries()) {
    const named = find(entry, driver, all)
    if (named.length === 0) {
      // An empty list and -1 are how operators say "none".
      const isNone = entry === '-1' || variable.trim() === ''
      return { gpus, ignored: isNone ? [] : entries.slice(i) }
    }
    gpus.push(...named.filter(({ device }) => !gpus.some((gpu) => gpu.device === device)))
  }
  return { gpus, ignored: [] }
}

/** Returns the devices that one entry names: an nvidia-smi index, a UUID, or an unambiguous prefix of one. */
function find(
  entry: string,
  driver: readonly DriverGpu[],
  all: readonly (readonly Device[])[],
): readonly Device[] {
  if (/^\d+$/.test(entry)) return all[Number(entry)] ?? []
  if (entry.startsWith('GPU-')) {
    const found = driver.flatMap(({ uuid }, index) => (uuid?.startsWith(entry) ? [at(all, index)] : []))
    return found.length === 1 ? found.flat() : []
  }
  if (!entry.startsWith('MIG-')) return []
  const found = all.flat().filter(({ device }) => device.startsWith(entry))
  return found.length === 1 ? found : found.filter(({ device }) => device === entry)
}
