import type { PayloadPublisher } from '../../node-runtime/cohorts/payload-publisher.ts'
import type { ControlClient } from '../../node-runtime/control/client.ts'
import type { SlotShares } from '../../node-runtime/control/slot-shares.ts'
import type { Spool } from '../../node-runtime/control/spool.ts'
import type { WorkRegistry } from '../../node-runtime/control/work-registry.ts'
import type { Edges } from '../../node-runtime/edges/edges.ts'
import type { DiskHealth } from '../../node-runtime/hardware/disk-health.ts'
import type { GpuHealth } from '../../node-runtime/hardware/gpu-health.ts'
import type { MemoryReservations } from '../../node-runtime/memory/reservations.ts'
import type { InputFiles } from '../../node-runtime/models/input-files.ts'
import type { ModelManager } from '../../node-runtime/models/manager.ts'
import type { ProcessDriver } from '../../node-runtime/processes/process-driver.ts'
import type { Tools } from '../../node-runtime/tools/tools.ts'
import type { WeightsCache } from '../../node-runtime/weights/cache.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { Logger } from '../../platform/log.ts'
import type { SchemaChecks } from '../../platform/schema-checks/checks.ts'
import type { NodeInventory } from '../../schemas/nodes/node.ts'

/** The dependencies of node activities. None of them reaches a database. */
export interface NodeDeps {
  readonly nodeId: string
  readonly catalog: Catalog
  /** Sends signed HTTP requests to any gateway: claims, leases, model specifications. */
  readonly control: ControlClient
  readonly driver: ProcessDriver
  readonly models: ModelManager
  readonly tools: Tools
  /** The model weights on this node's disk. */
  readonly weights: WeightsCache
  readonly inventory: NodeInventory
  /** Tracks whether trainers could use this node's GPUs. */
  readonly gpuHealth: GpuHealth
  /** Admits jobs while this node's disks have space. */
  readonly diskHealth: Pick<DiskHealth, 'admit' | 'filled'>
  /**
   * The memory of models and trainers. A trainer's reservation is held under its job id until its processes have
   * exited.
   */
  readonly memory: MemoryReservations
  /** Job logs and losses, stored on disk until a gateway has saved them. */
  readonly spool: Spool
  /** The payloads that cohort stages hand over to and from this node. */
  readonly edges: Edges
  readonly keepers: PayloadPublisher
  /** Fetches input files. */
  readonly inputs: InputFiles
  /** Validates responses against schemas that callers wrote. */
  readonly schemaChecks: SchemaChecks
  /**
   * Aborts when this node stops or drains. Trainers then write a checkpoint, and their activities fail as retryable.
   */
  readonly stopping: () => AbortSignal
  /** The running jobs and tasks. A cancellation sent over the link looks up its target here. */
  readonly work: WorkRegistry
  /** Limits the slots that one account's tasks and stages occupy. */
  readonly slotShares: SlotShares
  /**
   * Returns the path of a locked environment's Python interpreter, which the first call installs. The second argument
   * receives progress messages.
   */
  readonly pythonOf: (environment: string, tell?: (line: string) => void) => Promise<string>
  /** The folder for the files of jobs and tasks; a job's or task's files may be removed once it has ended. */
  readonly workDir: string
  readonly log: Logger
}
