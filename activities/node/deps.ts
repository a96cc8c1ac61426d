import type { ControlClient } from '../../node-runtime/control/client.ts'
import type { Spool } from '../../node-runtime/control/spool.ts'
import type { WorkRegistry } from '../../node-runtime/control/work-registry.ts'
import type { MemoryLedger } from '../../node-runtime/memory/ledger.ts'
import type { ModelManager } from '../../node-runtime/models/manager.ts'
import type { ProcessDriver } from '../../node-runtime/processes/process-driver.ts'
import type { WeightsCache } from '../../node-runtime/weights/cache.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { Logger } from '../../platform/log.ts'
import type { SchemaChecks } from '../../platform/schema-checks/checks.ts'
import type { NodeInventory } from '../../schemas/node.ts'

/** What node activities are given. Nothing here reaches a database. */
export interface NodeDeps {
  readonly nodeId: string
  readonly catalog: Catalog
  /** Signed HTTP to any gateway: claims, leases, model specifications. */
  readonly control: ControlClient
  readonly driver: ProcessDriver
  readonly models: ModelManager
  /** What of models lies on this disk. */
  readonly weights: WeightsCache
  readonly inventory: NodeInventory
  /** What models and trainers hold; a trainer holds its share under its job id until its processes are gone. */
  readonly memory: MemoryLedger
  /** Logs and losses of jobs, on disk until a gateway has them. */
  readonly spool: Spool
  /** Holds answers against schemas that callers wrote. */
  readonly schemaChecks: SchemaChecks
  /** Aborts when this node stops or drains: trainers then checkpoint and their activities fail as retryable. */
  readonly stopping: () => AbortSignal
  /** Where a cancel over the link finds jobs and tasks. */
  readonly work: WorkRegistry
  /** Absolute path of the Python interpreter of a locked environment, installed on first use; `tell` hears of its progress. */
  readonly pythonOf: (environment: string, tell?: (line: string) => void) => Promise<string>
  /** Folder for the files of jobs; what is in it may be removed once the job has ended. */
  readonly workDir: string
  readonly log: Logger
}
