import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import type { Database } from '../db/tables.ts'
import type { Catalog } from '../platform/catalog.ts'
import type { Config } from '../platform/config.ts'
import type { EdgeTickets } from '../platform/edge-tickets.ts'
import type { EdgeAddresses } from '../platform/egress/edge-addresses.ts'
import type { EgressPolicy } from '../platform/egress/policy.ts'
import type { HubClient } from '../platform/hub/client.ts'
import type { Logger } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics/metrics.ts'
import type { NodeCredentials } from '../platform/node-credentials.ts'
import type { ObjectStore } from '../platform/object-store/store.ts'
import type { SchemaChecks } from '../platform/schema-checks/checks.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { Planner } from './cohorts/planner/planner.ts'
import type { CopyPlanner } from './gateway/background/copy-planner.ts'
import type { EdgeWaiters } from './gateway/background/edge-waiters.ts'
import type { Followers } from './gateway/background/followers.ts'
import type { GatewayLease } from './gateway/background/gateway-lease.ts'
import type { HealthProbe } from './gateway/background/health-probe.ts'
import type { KillSwitchSignal } from './gateway/background/kill-switch-signal.ts'
import type { StorageMonitor } from './gateway/background/storage-monitor.ts'
import type { TaskWaiters } from './gateway/background/task-waiters.ts'
import type { WorkflowOutbox } from './gateway/background/workflow-outbox.ts'
import type { EndpointCache } from './gateway/caches/endpoint-cache.ts'
import type { Estimates } from './gateway/caches/estimates.ts'
import type { KeyCache } from './gateway/caches/key-cache.ts'
import type { KeyMeters } from './gateway/caches/key-meters.ts'
import type { KeyStreams } from './gateway/caches/key-streams.ts'
import type { KillSwitchView } from './gateway/caches/kill-switch.ts'
import type { Journal } from './gateway/journal/journal.ts'
import type { NodeAuthenticator } from './gateway/links/node-authenticator.ts'
import type { NodeLinks } from './gateway/links/node-links.ts'
import type { ModelMetrics } from './gateway/metrics/model-metrics.ts'
import type { StreamSlots } from './http/connections/stream-slots.ts'
import type { LongResponses } from './http/long-responses.ts'
import type { HubReader } from './hub/reader.ts'
import type { InputChecks } from './inference/input-checks.ts'
import type { ModelLoads } from './inference/model-loads.ts'
import type { ModelSlots } from './inference/model-slots.ts'
import type { ToolCatalogue } from './manifest/tool-catalogue.ts'
import type { Memory } from './memory/memory.ts'
import type { OperatorViews } from './operations/operator-views.ts'

/**
 * The services that handlers use. `api/open-services.ts` builds them once; tests build the same services on their own
 * database.
 */
export interface Services {
  readonly config: Config
  readonly db: Kysely<Database>
  readonly log: Logger
  /** The metrics of this process; nothing is recorded while the metrics port is off. */
  readonly metrics: Metrics
  /** Measures requests to models. */
  readonly modelMetrics: ModelMetrics
  readonly now: () => Date
  /** This process's identity: its row in `gateway`, and the address at which nodes reach it. */
  readonly gateway: Pick<GatewayLease, 'id' | 'baseUrl'>
  /** The address at which clients reach the gateways; the gateway's own unless they share a load balancer. */
  readonly publicUrl: string
  /** Aborted when the gateway stops accepting requests, to end work that would never end by itself. */
  readonly stopping: AbortController
  readonly temporal: Client
  readonly health: HealthProbe
  /** Watches the free disk space of the object store and PostgreSQL. */
  readonly room: StorageMonitor
  readonly catalog: Catalog
  readonly objects: ObjectStore
  /** Starts the workflows enqueued in `workflow_start`; `poke` starts them now. */
  readonly outbox: Pick<WorkflowOutbox, 'poke'>
  /** Enforces the limits of keys. */
  readonly keyMeters: Pick<KeyMeters, 'admit' | 'spend'>
  /** Finds a live key by its text; `undefined` if there is none. */
  readonly keys: Pick<KeyCache, 'find' | 'noteUses'>
  /** Ends the streams of keys that are revoked or expire. */
  readonly keyStreams: Pick<KeyStreams, 'watch'>
  readonly killSwitch: KillSwitchView
  /** Signals the kill switch workflow about changes made over REST. */
  readonly killSwitchSignal: Pick<KillSwitchSignal, 'send'>
  /** Encrypts stored replies and other text that may contain a secret. */
  readonly secretBox: SecretBox
  /** The model hub, for callers that have checked the account's access. */
  readonly hub: Omit<HubClient, 'info' | 'search'>
  /** The model hub, limited to what each account may see. */
  readonly hubReader: HubReader
  /** The policy for addresses that users supply. */
  readonly egress: EgressPolicy
  /** Checks the signatures of nodes. */
  readonly nodes: Pick<NodeAuthenticator, 'checkHead' | 'verify'>
  /** Issues the credentials that nodes present to the Temporal gate. */
  readonly nodeCredentials: NodeCredentials
  /** The endpoint rows that inference needs. */
  readonly endpoints: EndpointCache
  /** Accounts' tools, for their manifests. */
  readonly tools: ToolCatalogue
  /** Estimates of load and inference times. */
  readonly estimates: Estimates
  /** Validates values against schemas that callers wrote, in child processes. */
  readonly schemaChecks: SchemaChecks
  /** Validates inference inputs, mostly without a child process. */
  readonly inputChecks: InputChecks
  /** Plans graphs of models; uses a worker thread for large graphs. */
  readonly planner: Pick<Planner, 'order' | 'plan'>
  /** Builds each account's long responses one at a time. */
  readonly longAnswers: LongResponses
  /** Writes the rows of warm inference, many per transaction. */
  readonly journal: Journal
  /** Wakes requests that are waiting for a task to end. */
  readonly taskWaiters: TaskWaiters
  /** Creates the tickets with which nodes fetch payloads from each other. */
  readonly edgeTickets: EdgeTickets
  readonly edgeAddresses: EdgeAddresses
  /** Wakes requests that are waiting for the other side of a cohort's edge. */
  readonly edgeWaiters: EdgeWaiters
  /** Counts each account's open streams of all kinds. */
  readonly streamSlots: StreamSlots
  /** Wakes the streams of training runs. */
  readonly runFollowers: Followers
  /** Wakes the event streams of accounts. */
  readonly eventFollowers: Followers
  /** The nodes linked to this gateway, and requests to their models. */
  readonly links: NodeLinks
  /** The request slots of loaded models, for which accounts take turns. */
  readonly places: ModelSlots
  /** Model loads that requests are waiting for. */
  readonly loads: ModelLoads
  /** The memory for requests to language models. */
  readonly memory: Memory
  /** The operators' view of the platform as a whole. */
  readonly operations: OperatorViews
  /** Plans which nodes keep which models loaded. */
  readonly copyPlanner: CopyPlanner
}
