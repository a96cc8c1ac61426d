import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { GpuFault } from '../../schemas/nodes/node.ts'
import { childEnv } from '../processes/confinement.ts'
import type { ProcessDriver } from '../processes/process-driver.ts'
import { onlyGpus } from './nvidia.ts'

const PROGRAM = fileURLToPath(new URL('cuda_probe.py', import.meta.url))
/** Without persistence mode, the driver takes seconds to initialize each GPU of a large machine. */
const CUDA_PROBE_TIMEOUT_MS = 120_000
const MEMORY_MB = 4_096
const MAX_REASON = 300

/** One run of cuInit, as cuda_probe.py prints it. */
type ProbeOutcome = { missing: string } | { code: number; name: string; devices: number }

/** The number of devices that this node's processes can use, or the reason why they can use none. */
export type CudaProbe = { devices: number } | Pick<GpuFault, 'code' | 'reason'>

export interface CudaProbeOptions {
  reads?: readonly string[]
  timeoutMs?: number
  /** The `device` of each GPU that the node uses; by default those that CUDA shows to the node. */
  devices?: readonly string[]
}

/**
 * Initializes CUDA in a process that is confined as trainers and model servers are, and in a worker of that process.
 * `nvidia-smi` alone is no proof: it works even where CUDA does not. Never throws.
 */
export async function probeCuda(
  driver: ProcessDriver,
  python: string,
  { reads = [], timeoutMs = CUDA_PROBE_TIMEOUT_MS, devices }: CudaProbeOptions = {},
): Promise<CudaProbe> {
  try {
    const probe = await driver.start({
      name: 'cuda-probe',
      command: python,
      args: ['-I', '-S', PROGRAM],
      env: childEnv(devices && onlyGpus(devices)),
      confinement: { reads, network: 'none', memoryMb: MEMORY_MB, hasGpu: true, oomScore: 500 },
    })
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      void probe.stop({ graceMs: 0 })
    }, timeoutMs)
    const [out, err, { code }] = await Promise.all([text(probe.stdout), text(probe.stderr), probe.exited])
    clearTimeout(timer)
    if (isLate) return fault(null, `CUDA did not start within ${Math.ceil(timeoutMs / 1_000)} s`)
    if (code !== 0)
      return fault(null, probe.excess ?? `the CUDA probe exited with status ${code}: ${err.trim()}`)
    const { own, worker } = JSON.parse(out) as { own: ProbeOutcome; worker: ProbeOutcome }
    return judge(own, 'a process') ?? judge(worker, 'a worker of a process') ?? { devices: devicesOf(own) }
  } catch (err) {
    return fault(null, `the CUDA probe failed: ${err instanceof Error ? err.message : String(err)}`)
  }
}

function judge(outcome: ProbeOutcome, where: string): CudaProbe | undefined {
  if ('missing' in outcome)
    return fault(null, `${where} cannot load the driver's library: ${outcome.missing}`)
  const { code, name, devices } = outcome
  if (code !== 0) return fault(code, `cuInit fails in ${where} with ${code}${name && ` (${name})`}`)
  return devices === 0 ? fault(null, `the driver shows no device to ${where}`) : undefined
}

const devicesOf = (outcome: ProbeOutcome): number => ('devices' in outcome ? outcome.devices : 0)

const fault = (code: number | null, reason: string): CudaProbe => ({
  code,
  reason: reason.replaceAll(/\s+/g, ' ').slice(0, MAX_REASON),
})
