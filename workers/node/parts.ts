import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
import { PayloadPublisher } from '../../node-runtime/cohorts/payload-publisher.ts'
import { ControlClient } from '../../node-runtime/control/client.ts'
import { type Identity, loadOrJoin, saveGateways } from '../../node-runtime/control/identity.ts'
import type { RecentLogs } from '../../node-runtime/control/recent-logs.ts'
import { SlotShares } from '../../node-runtime/control/slot-shares.ts'
import { Spool } from '../../node-runtime/control/spool.ts'
import { WorkRegistry } from '../../node-runtime/control/work-registry.ts'
import { Edges, type EdgesOptions } from '../../node-runtime/edges/edges.ts'
import { environmentLog, Environments } from '../../node-runtime/environments/environments.ts'
import { findPython } from '../../node-runtime/environments/python-env.ts'
import { probeCuda } from '../../node-runtime/hardware/cuda-probe.ts'
import { DiskHealth } from '../../node-runtime/hardware/disk-health.ts'
import { GpuHealth } from '../../node-runtime/hardware/gpu-health.ts'
import { hasCompiler, profileLack, takeInventory } from '../../node-runtime/hardware/inventory.ts'
import { devicesOf, gpuBudgets } from '../../node-runtime/hardware/nvidia.ts'
import { Links } from '../../node-runtime/link/links.ts'
import { memoryMeter } from '../../node-runtime/memory/meter.ts'
import { ModelPeaks } from '../../node-runtime/memory/model-peaks.ts'
import { ProcessMemoryMeter } from '../../node-runtime/memory/process-memory.ts'
import { SleepRam } from '../../node-runtime/memory/ram.ts'
import { MemoryReservations } from '../../node-runtime/memory/reservations.ts'
import { InputFiles } from '../../node-runtime/models/input-files.ts'
import { ModelManager } from '../../node-runtime/models/manager.ts'
import { Pins } from '../../node-runtime/models/pins.ts'
import { ContainerDriver } from '../../node-runtime/processes/container-driver.ts'
import { gapsOf } from '../../node-runtime/processes/isolation.ts'
import { ProcessDriver } from '../../node-runtime/processes/process-driver.ts'
import { followTools } from '../../node-runtime/tools/follow-tools.ts'
import { environmentsOf, openTools } from '../../node-runtime/tools/open-tools.ts'
import type { Tools } from '../../node-runtime/tools/tools.ts'
import { WeightsCache } from '../../node-runtime/weights/cache.ts'
import { cacheQuotaMb } from '../../node-runtime/weights/quota.ts'
import type { Catalog } from '../../platform/catalog.ts'
import { type Config, required } from '../../platform/config.ts'
import { openEgressPolicy } from '../../platform/egress/policy.ts'
import { PublicConnections } from '../../platform/egress/public-connections.ts'
import type { Logger } from '../../platform/log.ts'
import { SchemaChecks } from '../../platform/schema-checks/checks.ts'
import type { GateFault, NodeInventory, NodeSharing } from '../../schemas/nodes/node.ts'
import { emit } from './events.ts'
import { reporter } from './reporter.ts'

/** The parts of a node after it has joined; none of them accepts work yet. */
export interface NodeParts {
  identity: Identity
  inventory: NodeInventory
  catalog: Catalog
  lines: RecentLogs
  control: ControlClient
  driver: ProcessDriver
  containers: ContainerDriver | undefined
  memory: MemoryReservations
  models: ModelManager
  tools: Tools
  environments: Environments
  weights: WeightsCache
  spool: Spool
  work: WorkRegistry
  slotShares: SlotShares
  schemaChecks: SchemaChecks
  inputs: InputFiles
  /** The payloads that cohort stages hand over to and from this node. */
  edges: Edges
  /** Retains outgoing payloads until their consumers have succeeded. */
  keepers: PayloadPublisher
  links: Links
  gpuHealth: GpuHealth
  diskHealth: DiskHealth
  pythonOf: (environment: string, tell?: (line: string) => void) => Promise<string>
  /** Aborts environment installations that no load is waiting for, and stops following operators' tools. */
  preparing: AbortController
  workDir: string
}

const SPOOL_FLUSH_INTERVAL_MS = 500
const STOP_TIMEOUT_MS = 500

export interface NodeOptions {
  catalog: Catalog
  /** Collects the logs of model servers and returns them to gateways. */
  lines: RecentLogs
  isDraining: () => boolean
  /** Present while the gate cannot be reached. */
  gateFault: () => GateFault | undefined
  onDraining: (draining: boolean) => void
  onSharing: (sharing: NodeSharing) => void
  /** Called when GPUs become unusable or usable again. */
  onGpus?: () => void
  /** Called when a link breaks or a gateway refuses one. */
  onNoLink: () => void
  /** The folder with the Python environments' lockfiles, if it is not the runtime's own. */
  locksDir?: string | undefined
}

/** Ends processes left behind by an earlier run, joins the platform if necessary, and opens the links. */
export async function openNode(config: Config, log: Logger, options: NodeOptions): Promise<NodeParts> {
  const dir = config.HEARTH_NODE_DIR
  const { catalog, lines, isDraining, gateFault, onDraining, onNoLink, onSharing } = options
  const python = { cacheDir: config.HEARTH_CACHE_DIR, log: environmentLog(log) }
  let found: Promise<string> | undefined
  const launcherPython = () => (found ??= findPython(python))
  const driver = new ProcessDriver({ stateDir: dir, python: launcherPython })
  const containers = await ContainerDriver.connect({
    socketPath: config.HEARTH_CONTAINER_SOCKET,
    stateDir: dir,
  })
  const reaped = (await driver.reap()) + ((await containers?.reap()) ?? 0)
  if (reaped) emit(log, 'node.leftovers_ended', { reaped })

  const connections = new PublicConnections(openEgressPolicy(config))
  const { tools, able, isolation } = await openTools({
    catalog,
    driver,
    containers,
    image: config.HEARTH_TOOL_IMAGE,
    pool: config.HEARTH_TOOL_POOL,
    plainPython: launcherPython,
    pythonOf: (environment) => pythonOf(environment),
    workDir: join(dir, 'tools'),
    outside: {
      connections,
      storage: () => links.gateways.map((url) => `${url}/objects/`),
    },
    log,
  })
  let gpuFailure: string | undefined
  const has = { hasContainers: containers !== undefined, hasCompiler: hasCompiler() }
  const inventory = await takeInventory({
    profiles: catalog.profiles,
    ableToRun: able,
    ...has,
    held: () => driver.held(),
    toolIsolation: isolation,
    memoryMb: config.HEARTH_NODE_MEMORY_MB,
    trainSlots: config.HEARTH_NODE_SLOTS,
    onGpuFailure: (reason) => (gpuFailure = reason),
  })
  const gaps = gapsOf(inventory.isolation ?? {})
  if (gaps.length > 0) emit(log, 'node.isolation_incomplete', { gaps })
  if (inventory.gpu_restriction) emit(log, 'node.gpus_left_out', inventory.gpu_restriction)
  logMissingProfiles(catalog, inventory, { ...has, log })
  const identity = await joinPool(config, inventory)
  const environments = new Environments({
    profiles: [
      ...catalog.profiles.filter(({ profile_id }) => inventory.profiles.includes(profile_id)),
      ...environmentsOf(tools),
    ],
    images: containers,
    cacheDir: config.HEARTH_CACHE_DIR,
    locksDir: options.locksDir,
    log,
  })
  await environments.init()
  const pythonOf = environments.python.bind(environments)
  const work = new WorkRegistry()
  const devices = devicesOf(inventory.gpus)
  const memory = new MemoryReservations(
    inventory.memory_mb,
    gpuBudgets(inventory.gpus, inventory.memory_mb),
    devices,
  )
  const spool = new Spool({ dir: join(dir, 'spool') })
  const control = new ControlClient({
    identity,
    gateways: () => links.reachable,
    patienceMs: config.HEARTH_NODE_RETRY_S * 1_000,
  })
  const weightsDir = join(dir, 'weights')
  const quotaMb = await cacheQuotaMb({
    dir: weightsDir,
    gb: config.HEARTH_NODE_CACHE_GB,
    mb: config.HEARTH_NODE_CACHE_MB,
  })
  const weights = new WeightsCache({ dir: weightsDir, quotaMb })
  const pins = new Pins(config.HEARTH_NODE_PINNED, config.HEARTH_IDLE_UNLOAD_S)
  const gpuHealth = new GpuHealth({
    probe:
      devices.length > 0 ? async () => probeCuda(driver, await launcherPython(), { devices }) : undefined,
    log,
    onChange: () => {
      links.reportNow()
      options.onGpus?.()
    },
  })
  const diskHealth = new DiskHealth({
    folders: [dir, config.HEARTH_CACHE_DIR],
    log,
    onChange: () => links.reportNow(),
  })
  const meter = memoryMeter(inventory, memory.gpus)
  const models = new ModelManager({
    catalog,
    gpuHealth,
    cache: weights,
    drivers: { process: driver, container: containers },
    memory,
    meter,
    runnable: inventory.profiles,
    fits: (spec, profile) => meter.fits(spec, profile),
    pins,
    ram: new SleepRam({ totalMb: inventory.ram_mb, pct: config.HEARTH_NODE_SLEEP_PCT }),
    idleUnloadS: config.HEARTH_IDLE_UNLOAD_S,
    measured: new ModelPeaks(
      join(dir, inventory.hardware === 'gpu' ? 'measured-vram.json' : 'measured.json'),
    ),
    modelSpec: (modelKey, options) => control.modelSpec(modelKey, options),
    pythonOf,
    hasPython: (environment) => environments.hasPython(environment),
    hasPackages: (environment) => environments.hasPackages(environment),
    hasImage: (image) => environments.hasImage(image),
    imageOf: (image) => environments.image(image),
    packagesOf: (environment) => environments.packages(environment),
    onLine: (modelKey, line) => lines.keep('models', line, modelKey),
    log,
  })
  await models.init()
  const processes = new ProcessMemoryMeter({ running: () => driver.running, hasGpus: devices.length > 0 })
  const report = reporter({
    catalog,
    inventory,
    memory,
    models,
    tools,
    work,
    environments,
    processes,
    isDraining,
    gateFault,
    gpuFault: () => gpuHealth.fault,
    diskFault: () => diskHealth.fault,
  })
  const workDir = join(dir, 'work')
  // These files belong to attempts that were unfinished when the node last stopped; each attempt downloads its own.
  await rm(workDir, { recursive: true, force: true })
  const inputs = new InputFiles({ connections, workDir })
  const edges = await Edges.open({
    dir: join(dir, 'edges'),
    limitMb: config.HEARTH_NODE_EDGE_MB,
    listen: listenAt(config.HEARTH_NODE_EDGE_LISTEN),
    networks: config.HEARTH_EDGE_NETWORKS,
  })
  const keepers = new PayloadPublisher(edges, log)
  const home = required(config, 'HEARTH_GATEWAY_URL')
  const links = new Links({
    home,
    gateways: [home, ...identity.gateways],
    identity,
    inventory,
    models,
    tools,
    inputs,
    spool,
    work,
    keepers,
    lines,
    report,
    log,
    onGateways: (gateways) =>
      void saveGateways(dir, identity, gateways).catch((err: unknown) =>
        emit(log, 'node.gateways_save_failed', { err }),
      ),
    onNoLink,
    onDraining: (draining) => {
      onDraining(draining)
      if (draining) void models.endSleep()
    },
    onSharing,
    onStay: ({ pinned, retiring, idle_timeouts }) => {
      if (retiring) pins.setRetiring(retiring)
      if (idle_timeouts) pins.setIdleTimeouts(idle_timeouts)
      if (pinned) pins.setAssigned(pinned)
      models.keepPinned()
    },
    onForget: (modelKeys) => void models.disk.forget(modelKeys),
  })
  const preparing = new AbortController()
  preparing.signal.addEventListener('abort', () => processes[Symbol.dispose]())
  void followTools(tools, { control, log, signal: preparing.signal })
  if (gpuFailure !== undefined) gpuHealth.failed(gpuFailure)
  void gpuHealth.check()
  diskHealth.watch()
  void environments.prepare(config.HEARTH_NODE_PREPARE, preparing.signal)
  return {
    identity,
    inventory,
    catalog,
    lines,
    control,
    driver,
    containers,
    memory,
    models,
    tools,
    environments,
    weights,
    spool,
    work,
    slotShares: new SlotShares(),
    schemaChecks: new SchemaChecks(),
    inputs,
    edges,
    keepers,
    links,
    gpuHealth,
    diskHealth,
    pythonOf,
    preparing,
    workDir,
  }
}

/** Parses host:port; undefined when the node should not listen. */
function listenAt(address: string): EdgesOptions['listen'] {
  const at = address.lastIndexOf(':')
  if (at < 0) return undefined
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) }
}

/** Logs the profiles that this machine cannot run, with the reasons, and hardware that no profile can use. */
function logMissingProfiles(
  { profiles }: Catalog,
  { hardware, gpus }: NodeInventory,
  { log, ...has }: { hasContainers: boolean; hasCompiler: boolean; log: Logger },
): void {
  const machine = { gpus: gpusOfOneProgram(gpus), ...has }
  const lacks = profiles.flatMap((profile) => {
    const lack = profileLack(profile, machine)
    return lack === undefined ? [] : [`${profile.profile_id} needs ${lack}`]
  })
  if (lacks.length > 0) emit(log, 'node.profiles_lacking', { lacks })
  if (hardware === 'xpu') emit(log, 'node.xpus_unused')
}

const joinPool = (config: Config, inventory: NodeInventory) =>
  loadOrJoin({
    dir: config.HEARTH_NODE_DIR,
    gateway: required(config, 'HEARTH_GATEWAY_URL'),
    token: config.HEARTH_NODE_TOKEN,
    name: config.HEARTH_NODE_NAME || hostname(),
    inventory,
  })

/** Stops the node's processes, sends the rest of its spool, and closes its links. */
export async function closeNode(node: NodeParts): Promise<void> {
  const { models, tools, edges, keepers, driver, containers, spool, links, control } = node
  node.preparing.abort()
  node.gpuHealth[Symbol.dispose]()
  node.diskHealth[Symbol.dispose]()
  await keepers[Symbol.asyncDispose]()
  await Promise.all([models, tools, edges].map((part) => part[Symbol.asyncDispose]()))
  await Promise.all([
    driver.stopAll({ graceMs: STOP_TIMEOUT_MS }),
    containers?.stopAll({ graceMs: STOP_TIMEOUT_MS }),
  ])
  await spool.flush({ timeoutMs: SPOOL_FLUSH_INTERVAL_MS })
  links.close()
  spool.close()
  await control.close()
}
