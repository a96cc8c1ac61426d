import { CacheWatch } from '../db/cache-watch.ts'
import { connectOnce, openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import { PreparedPool } from '../db/prepared-pool.ts'
import { EVENT_CHANNEL } from '../db/repositories/platform/event-feed.ts'
import { RUN_CHANNEL } from '../db/repositories/training/feed.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { type Config, required } from '../platform/config.ts'
import { EdgeTickets } from '../platform/edge-tickets.ts'
import { EdgeAddresses } from '../platform/egress/edge-addresses.ts'
import { openEgressPolicy } from '../platform/egress/policy.ts'
import { HubClient } from '../platform/hub/client.ts'
import type { Logger } from '../platform/log.ts'
import { openMonitoring } from '../platform/metrics/monitoring.ts'
import { countPlacements } from '../platform/metrics/placements.ts'
import { NodeCredentials } from '../platform/node-credentials.ts'
import { openObjectStore } from '../platform/object-store/open.ts'
import { unusable } from '../platform/reason.ts'
import { SchemaChecks } from '../platform/schema-checks/checks.ts'
import { SecretBox } from '../platform/secret-box.ts'
import { openTemporal } from '../platform/temporal.ts'
import { Planner } from './cohorts/planner/planner.ts'
import { emit } from './events.ts'
import { CopyPlanner } from './gateway/background/copy-planner.ts'
import { DeletedModels } from './gateway/background/deleted-models.ts'
import { EdgeWaiters } from './gateway/background/edge-waiters.ts'
import { Followers } from './gateway/background/followers.ts'
import { GatewayLease } from './gateway/background/gateway-lease.ts'
import { HealthProbe } from './gateway/background/health-probe.ts'
import { KillSwitchSignal } from './gateway/background/kill-switch-signal.ts'
import { StorageMonitor } from './gateway/background/storage-monitor.ts'
import { TaskWaiters } from './gateway/background/task-waiters.ts'
import { TaskWaker } from './gateway/background/task-waker.ts'
import { openWorkflowOutbox } from './gateway/background/workflow-outbox.ts'
import { EndpointCache } from './gateway/caches/endpoint-cache.ts'
import { Estimates } from './gateway/caches/estimates.ts'
import { KeyCache } from './gateway/caches/key-cache.ts'
import { KeyMeters } from './gateway/caches/key-meters.ts'
import { KeyStreams } from './gateway/caches/key-streams.ts'
import { KillSwitch } from './gateway/caches/kill-switch.ts'
import { Journal } from './gateway/journal/journal.ts'
import { startReaper } from './gateway/journal/reaper.ts'
import { MemoryHistory } from './gateway/links/memory-history.ts'
import { NodeAuthenticator } from './gateway/links/node-authenticator.ts'
import { NodeLinks } from './gateway/links/node-links.ts'
import { exposeGauges } from './gateway/metrics/gateway-gauges.ts'
import { ModelMetrics } from './gateway/metrics/model-metrics.ts'
import { StoredGauges } from './gateway/metrics/stored-gauges.ts'
import { StreamSlots } from './http/connections/stream-slots.ts'
import { LongResponses } from './http/long-responses.ts'
import { HubReader } from './hub/reader.ts'
import { InputChecks } from './inference/input-checks.ts'
import { ModelLoads } from './inference/model-loads.ts'
import { ModelSlots } from './inference/model-slots.ts'
import { operationTools } from './manifest/operation-tools.ts'
import { ToolCatalogue } from './manifest/tool-catalogue.ts'
import { ToolReader } from './manifest/tool-reader.ts'
import { openMemory } from './memory/open-memory.ts'
import { OperatorViews } from './operations/operator-views.ts'
import type { Services } from './services.ts'

const DATABASE_CONNECTIONS = 20
/** One account may use this many connections at once, so the rest stay free for all other accounts. */
const ACCOUNT_CONNECTIONS = 5

export type OpenServices = Services & AsyncDisposable

/** Builds the services in dependency order; disposal closes them in reverse order. */
export async function openServices(config: Config, baseUrl: string, log: Logger): Promise<OpenServices> {
  await using stack = new AsyncDisposableStack()
  const onError = (err: unknown) => emit(log, 'metrics.read_failed', { err })
  const monitoring = stack.use(await openMonitoring(config, 'gateway', { onError }))
  const { metrics } = monitoring
  const modelMetrics = new ModelMetrics(metrics)
  const url = required(config, 'DATABASE_URL')
  const hub = new HubClient({ endpoint: config.HEARTH_HUB_ENDPOINT, token: config.HEARTH_HUB_TOKEN })
  const secretBox = new SecretBox(config.HEARTH_ENCRYPTION_KEYS)
  const catalog = loadCatalog()
  const objects = await openObjectStore(config, () => baseUrl)

  const db = openDatabase(url, { max: DATABASE_CONNECTIONS, accountShare: ACCOUNT_CONNECTIONS })
  stack.defer(() => db.destroy())
  await connectOnce(db).catch((err: unknown) => {
    throw unusable('DATABASE_URL', err)
  })
  await migrate(db)
  const { client: temporal, close } = openTemporal(config)
  stack.defer(close)

  const gateway = stack.use(new GatewayLease(db, baseUrl, log))
  await gateway.start()
  const watch = stack.use(new CacheWatch(db, url, log))
  const killSwitchSignal = stack.use(new KillSwitchSignal(temporal, log))
  const killSwitch = stack.use(new KillSwitch({ db, watch, log, gatewayId: gateway.id }))
  const keyMeters = stack.use(new KeyMeters(db, { gateway, log }))
  const keys = stack.use(new KeyCache(db, { watch, meters: keyMeters, log }))
  const keyStreams = stack.use(new KeyStreams(db, { watch, log }))
  await Promise.all([watch.start(), killSwitch.start()])

  const endpoints = new EndpointCache(db, watch)
  const reader = new ToolReader({
    db,
    creditUsd: config.HEARTH_CREDIT_USD,
    hub: config.HEARTH_HUB_ENDPOINT,
  })
  const tools = new ToolCatalogue({ db, watch, log, reader, operations: operationTools() })
  const schemaChecks = stack.use(new SchemaChecks())
  const room = new StorageMonitor(db, objects)
  const onFault = (err: unknown) => room.note(err)
  const journal = stack.use(
    new Journal(stack.use(new PreparedPool(url, { max: 2 })), log, { onFault, metrics }),
  )
  stack.use(startReaper(db, log, gateway.id))
  const taskWaiters = stack.use(new TaskWaiters(db, url, log))
  await taskWaiters.start()
  const answerBytes = config.HEARTH_ANSWER_MEMORY_MB * 1024 * 1024
  const waker = stack.use(new TaskWaker({ db, temporal, log }))
  const onStates = () => waker.poke()
  const history = stack.use(new MemoryHistory({ db, gatewayId: gateway.id, log }))
  const links = stack.use(
    new NodeLinks({ db, gatewayId: gateway.id, log, watch, history, answerBytes, onStates }),
  )
  const edgeWaiters = stack.use(new EdgeWaiters(url, log, links))
  await edgeWaiters.start()
  const streamSlots = new StreamSlots()
  const [runFollowers, eventFollowers] = [
    stack.use(new Followers(url, log, { channel: RUN_CHANNEL, slots: streamSlots })),
    stack.use(new Followers(url, log, { channel: EVENT_CHANNEL, slots: streamSlots })),
  ]
  await Promise.all([runFollowers.start(), eventFollowers.start()])
  const outbox = stack.use(openWorkflowOutbox({ db, temporal, log }))
  const loads = stack.use(new ModelLoads({ db, links, outbox, log, onPlaced: countPlacements(metrics) }))
  const places = stack.use(
    new ModelSlots({
      links,
      catalog,
      baseUrl,
      onWaited: (modelKey, ms) => modelMetrics.waited(modelKey, 'slot', ms),
    }),
  )
  const estimates = new Estimates(db)
  const copyPlanner = stack.use(
    new CopyPlanner({
      db,
      outbox,
      log,
      gatewayId: gateway.id,
      defaultIdleS: config.HEARTH_IDLE_UNLOAD_S,
      catalog,
      places,
      loads,
      estimates,
    }),
  )
  stack.use(new DeletedModels({ db, links, watch, log }))
  const health = new HealthProbe(db, temporal, room)
  exposeGauges(metrics, { links, places, loads, journal, killSwitch, health, stored: new StoredGauges(db) })

  const withoutMemory: Omit<Services, 'memory' | 'operations'> = {
    config,
    db,
    log,
    metrics,
    modelMetrics,
    now: () => new Date(),
    gateway,
    publicUrl: config.HEARTH_PUBLIC_URL ?? baseUrl,
    stopping: new AbortController(),
    temporal,
    health,
    room,
    catalog,
    objects,
    outbox,
    keys,
    keyMeters,
    keyStreams,
    killSwitch,
    killSwitchSignal,
    secretBox,
    hub,
    hubReader: new HubReader(hub, db),
    egress: openEgressPolicy(config),
    nodes: new NodeAuthenticator(db),
    nodeCredentials: new NodeCredentials(config.HEARTH_ENCRYPTION_KEYS),
    links,
    loads,
    places,
    copyPlanner,
    endpoints,
    tools,
    estimates,
    schemaChecks,
    inputChecks: new InputChecks(schemaChecks),
    planner: stack.use(new Planner()),
    longAnswers: new LongResponses(),
    journal,
    taskWaiters,
    edgeWaiters,
    streamSlots,
    runFollowers,
    eventFollowers,
    edgeTickets: new EdgeTickets(config.HEARTH_ENCRYPTION_KEYS),
    edgeAddresses: new EdgeAddresses(config.HEARTH_EDGE_NETWORKS),
  }
  const memory = await openMemory(withoutMemory, watch, stack)
  const services: Services = { ...withoutMemory, memory, operations: new OperatorViews(withoutMemory) }
  const { signal } = services.stopping
  monitoring.readyWhen(async () => (signal.aborted ? ['the gateway is stopping'] : health.notReady()))
  const opened = stack.move()
  return Object.assign(services, { [Symbol.asyncDispose]: () => opened.disposeAsync() })
}
