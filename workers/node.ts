import { createNodeActivities } from '../activities/node/index.ts'
import { JoinError } from '../node-runtime/control/identity.ts'
import { NodeRevokedError } from '../node-runtime/control/node-revocation.ts'
import { RecentLogs } from '../node-runtime/control/recent-logs.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { type Config, ConfigError, readConfig } from '../platform/config.ts'
import { usableFolder } from '../platform/config/folder.ts'
import { createLogger, type Logger } from '../platform/log.ts'
import type { GateFault, NodeSharing } from '../schemas/nodes/node.ts'
import { QUEUES } from '../workflows/contract/policy.ts'
import { ActivityQueues } from './node/activity-queues.ts'
import { DrainController } from './node/drain-controller.ts'
import { emit } from './node/events.ts'
import { GateAccess } from './node/gate-access.ts'
import { closeNode, type NodeParts, openNode } from './node/parts.ts'
import { wantedQueues } from './node/queues.ts'
import { aborted, stopSignal } from './process.ts'
import { openTemporalRuntime } from './temporal-logger.ts'

/** Trainers write a checkpoint within this time; the whole stop takes less than 8 s. */
const STOP_TIMEOUT_MS = 3_000

/**
 * Runs a node until it is stopped: it joins, opens its links, and polls the queues that its hardware and models allow.
 */
async function main(): Promise<void> {
  const config = readConfig()
  const lines = new RecentLogs()
  const log = createLogger('node', config.HEARTH_LOG_LEVEL, { onLine: (line) => lines.keep('node', line) })
  const stop = stopSignal()
  await using _runtime = openTemporalRuntime(log)

  usableFolder('HEARTH_NODE_DIR', config.HEARTH_NODE_DIR)
  usableFolder('HEARTH_CACHE_DIR', config.HEARTH_CACHE_DIR)
  const drain = new DrainController()
  let followModels = () => {}
  let sharing: NodeSharing | undefined
  let renewCredentialSoon = () => {}
  let gateFault: GateFault | undefined
  const node = await openNode(config, log, {
    catalog: loadCatalog(),
    lines,
    isDraining: () => drain.isDraining,
    gateFault: () => gateFault,
    onDraining: (draining) => {
      if (stop.signal.aborted || !drain.drain(draining)) return
      emit(log, draining ? 'node.draining' : 'node.resumed')
      followModels()
      node.links.reportNow()
    },
    onSharing: (now) => {
      if (now === sharing) return
      sharing = now
      emit(log, sharing === 'shared' ? 'node.shared' : 'node.dedicated', { sharing })
      followModels()
    },
    onGpus: () => followModels(),
    onNoLink: () => renewCredentialSoon(),
  })
  await using stack = new AsyncDisposableStack()
  stack.defer(() => emit(log, 'node.stopped'))
  stack.defer(() => closeNode(node))
  const { queues, access } = await openQueues(node, stack, {
    config,
    log,
    stop,
    drain,
    onFault: (fault) => (gateFault = fault),
  })
  renewCredentialSoon = () => access.renewSoon()
  followModels = () => {
    const wanted = wantedQueues(node, { draining: drain.isDraining, sharing })
    node.models.setPolled((modelKey) => wanted.has(QUEUES.warm(modelKey)))
    queues.want(wanted)
  }
  node.models.onChange(() => followModels())
  followModels()
  emit(log, 'node.started', { node_id: node.identity.nodeId, ...node.inventory })

  await aborted(stop.signal)
  drain.stop()
  followModels = () => {}
  node.links.reportNow()
  if (stop.signal.reason instanceof NodeRevokedError) throw stop.signal.reason
}

interface NodeWorkerOptions {
  config: Config
  log: Logger
  stop: AbortController
  drain: DrainController
  onFault: (fault: GateFault | undefined) => void
}

/** Opens the connection to Temporal without polling. It closes with the stack, before the node itself. */
async function openQueues(
  node: NodeParts,
  stack: AsyncDisposableStack,
  { config, log, stop, drain, onFault }: NodeWorkerOptions,
): Promise<{ queues: ActivityQueues; access: GateAccess }> {
  const { identity, control } = node
  const onDismissed = (why: NodeRevokedError) => stop.abort(why)
  const access: GateAccess = stack.use(
    await GateAccess.open(
      { config, identity, control, log, onDismissed, onFault, onMoved: (moved) => queues.moveTo(moved) },
      stop.signal,
    ),
  )
  const { connection, namespace } = access
  const { nodeId } = identity
  const activities = createNodeActivities({ ...node, nodeId, stopping: () => drain.signal, log })
  const queues: ActivityQueues = stack.use(
    new ActivityQueues({ connection, namespace, activities, graceMs: STOP_TIMEOUT_MS, log }),
  )
  return { queues, access }
}

/**
 * The exit code of a dismissed node. The supervisor does not restart it, because it would be dismissed again.
 */
const DISMISSED = 3

main().catch((err: unknown) => {
  if (err instanceof Error && err.name === 'AbortError') return
  const isPlain = err instanceof ConfigError || err instanceof JoinError || err instanceof NodeRevokedError
  process.stderr.write(`${isPlain ? err.message : ((err as Error).stack ?? String(err))}\n`)
  process.exitCode = err instanceof NodeRevokedError ? DISMISSED : isPlain ? 2 : 1
})
