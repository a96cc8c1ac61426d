import { gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
import type { WorkRegistry } from '../../node-runtime/control/work-registry.ts'
import type { Environments } from '../../node-runtime/environments/environments.ts'
import { loadMeter } from '../../node-runtime/hardware/inventory.ts'
import type { ProcessMemoryMeter } from '../../node-runtime/memory/process-memory.ts'
import type { MemoryReservations } from '../../node-runtime/memory/reservations.ts'
import type { ModelManager } from '../../node-runtime/models/manager.ts'
import type { Tools } from '../../node-runtime/tools/tools.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { DiskFault, GateFault, GpuFault, NodeInventory, NodeReport } from '../../schemas/nodes/node.ts'

/** The parts of a node that its report covers. */
export interface ReportedParts {
  catalog: Pick<Catalog, 'profiles'>
  inventory: Pick<NodeInventory, 'gpus'>
  memory: MemoryReservations
  models: Pick<ModelManager, 'report'>
  tools: Pick<Tools, 'report'>
  work: Pick<WorkRegistry, 'size'>
  environments: Pick<Environments, 'report'>
  processes: Pick<ProcessMemoryMeter, 'report'>
  isDraining: () => boolean
  gateFault: () => GateFault | undefined
  gpuFault: () => GpuFault | undefined
  diskFault: () => DiskFault | undefined
}

/** Returns a function that reports the state of a node. */
export function reporter(parts: ReportedParts) {
  const load = loadMeter()
  const split_profiles = parts.catalog.profiles.flatMap(({ profile_id, tensor_parallel = 1 }) =>
    tensor_parallel > 1 ? [{ profile_id, tensor_parallel }] : [],
  )
  return (): NodeReport => {
    const gate_fault = parts.gateFault()
    const gpu_fault = parts.gpuFault()
    const disk_fault = parts.diskFault()
    return {
      memory_total_mb: parts.memory.totalMb,
      memory_free_mb: Math.floor(parts.memory.freeMb),
      ...gpusOf(parts.memory, parts.inventory),
      ...(split_profiles.length > 0 && { split_profiles }),
      load: load(),
      draining: parts.isDraining(),
      jobs: parts.work.size,
      ...(gate_fault && { gate_fault }),
      ...(gpu_fault && { gpu_fault }),
      ...(disk_fault && { disk_fault }),
      models: [...parts.models.report(), ...parts.tools.report()],
      processes: parts.processes.report(),
      environments: parts.environments.report(),
    }
  }
}

function gpusOf(
  { gpus, freeByPool }: MemoryReservations,
  inventory: Pick<NodeInventory, 'gpus'>,
): Pick<NodeReport, 'gpus' | 'gpus_per_model'> {
  if (gpus.length === 0) return {}
  const together = gpusOfOneProgram(inventory.gpus)
  return {
    gpus: gpus.map((memory_mb, gpu) => ({ memory_mb, free_mb: Math.floor(freeByPool[gpu] ?? 0) })),
    ...(together < gpus.length && { gpus_per_model: together }),
  }
}
