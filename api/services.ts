import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import type { Database } from '../db/tables.ts'
import type { KillSwitchRow } from '../db/tables/accounts.ts'
import type { Catalog } from '../platform/catalog.ts'
import type { Config } from '../platform/config.ts'
import type { EgressPolicy } from '../platform/egress/policy.ts'
import type { HubClient } from '../platform/hub/client.ts'
import type { Logger } from '../platform/log.ts'
import type { NodeCredentials } from '../platform/node-credentials.ts'
import type { ObjectStore } from '../platform/object-store/store.ts'
import type { SchemaChecks } from '../platform/schema-checks/checks.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { HealthProbe } from './gateway/background/health-probe.ts'
import type { TaskWaiters } from './gateway/background/task-waiters.ts'
import type { WarmPins } from './gateway/background/warm-pins.ts'
import type { EndpointCache } from './gateway/caches/endpoint-cache.ts'
import type { Estimates } from './gateway/caches/estimates.ts'
import type { KeyCache } from './gateway/caches/key-cache.ts'
import type { Journal } from './gateway/journal/journal.ts'
import type { NodeLinks } from './gateway/links/node-links.ts'
import type { NodeCaller } from './http/caller.ts'
import type { HubReader } from './hub/reader.ts'
import type { InputChecks } from './inference/input-checks.ts'
import type { ModelLoads } from './inference/model-loads.ts'

/** The kill switch as this gateway last saw it. */
export interface KillSwitchView {
  readonly active: boolean
  readonly reason: string | null
  /** When the last look began that succeeded, by the monotonic clock of this process in milliseconds; a view older than 2 s admits no new work. */
  readonly seenAt: number
}

/** The signed parts of a node's request, as they came in. */
export interface SignedRequest {
  method: string
  /** Path and query as on the request line. */
  path: string
  timestamp: number
  accountId: string
  nodeId: string
  signature: string
  /** As the sender declares it; nodes before 0.12 do not. */
  bodySha256: string | undefined
  body: Buffer
}

/** What handlers are given. Built once in `api/open-services.ts`; tests build the same over their own database. */
export interface Services {
  readonly config: Config
  readonly db: Kysely<Database>
  readonly log: Logger
  readonly now: () => Date
  /** This process as the others see it: its row in `gateway`, and the address clients and nodes reach it at. */
  readonly gateway: { readonly id: string; readonly baseUrl: string }
  readonly temporal: Client
  readonly health: HealthProbe
  readonly catalog: Catalog
  readonly objects: ObjectStore
  /** Starts the workflows enqueued in `workflow_start`; `poke` starts them now. */
  readonly outbox: { poke(): void }
  /** Finds the live key behind its text; `undefined` when there is none. */
  readonly keys: Pick<KeyCache, 'find'>
  readonly killSwitch: KillSwitchView
  /** Tells the kill switch workflow what REST has written. */
  readonly killSwitchSignal: { send(row: KillSwitchRow): void }
  /** Encryption at rest, for stored replies and other texts that may hold a secret. */
  readonly secretBox: SecretBox
  /** The one way to the model hub, where the account was let in already. */
  readonly hub: Omit<HubClient, 'info' | 'search'>
  /** The hub as accounts may see it. */
  readonly hubReader: HubReader
  /** Where user-given addresses may lead. */
  readonly egress: EgressPolicy
  /**
   * `verify` throws `unauthenticated` unless a live node signed the request and it was not seen before; `checkHead` as far as
   * that can be said before the body has come.
   */
  readonly nodes: {
    checkHead(request: Omit<SignedRequest, 'body'>): Promise<NodeCaller>
    verify(request: SignedRequest): Promise<NodeCaller>
  }
  /** What nodes show to the Temporal gate. */
  readonly nodeCredentials: NodeCredentials
  /** Endpoints as inference needs them. */
  readonly endpoints: EndpointCache
  /** How long models take. */
  readonly estimates: Estimates
  /** Holds values against schemas that callers wrote, in child processes. */
  readonly schemaChecks: SchemaChecks
  /** The same for inputs of inference, which mostly need no child. */
  readonly inputChecks: InputChecks
  /** The rows of warm inference, many to a transaction. */
  readonly journal: Journal
  /** Wakes who waits for a task to end. */
  readonly taskWaiters: TaskWaiters
  /** The nodes linked to this gateway and the way to their models. */
  readonly links: NodeLinks
  /** Models that requests wait for. */
  readonly loads: ModelLoads
  /** Models that are kept loaded. */
  readonly warmPins: WarmPins
}
