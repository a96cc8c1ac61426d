import { gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
import { loadMeter } from '../../node-runtime/hardware/inventory.ts'
import type { MemoryReservations } from '../../node-runtime/memory/reservations.ts'
import type { DiskFault, GpuFault, NodeInventory, NodeReport } from '../../schemas/nodes/node.ts'
import type { NodeOptions, NodeParts } from './parts.ts'

/** Returns a function that reports the state of a node. */
export function reporter(
  parts: Pick<NodeParts, 'catalog' | 'inventory' | 'memory' | 'models' | 'tools' | 'work' | 'environments'> &
    Pick<NodeOptions, 'isDraining' | 'gateFault'> & {
      gpuFault: () => GpuFault | undefined
      diskFault: () => DiskFault | undefined
    },
) {
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
      environments: parts.environments.report(),
    }
  }
}

function gpusOf(
  { gpus, freeByPool }: MemoryReservations,
  inventory: NodeInventory,
): Pick<NodeReport, 'gpus' | 'gpus_per_model'> {
  if (gpus.length === 0) return {}
  const together = gpusOfOneProgram(inventory.gpus)
  return {
    gpus: gpus.map((memory_mb, gpu) => ({ memory_mb, free_mb: Math.floor(freeByPool[gpu] ?? 0) })),
    ...(together < gpus.length && { gpus_per_model: together }),
  }
}
