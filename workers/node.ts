import { setTimeout as sleep } from 'node:timers/promises'
import { NativeConnection, Runtime } from '@temporalio/worker'
import { createNodeActivities } from '../activities/node/index.ts'
import { JoinError } from '../node-runtime/identity.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { type Config, ConfigError, readConfig } from '../platform/config.ts'
import { usableFolder } from '../platform/folder.ts'
import { createLogger, type Logger } from '../platform/log.ts'
import type { NodeSharing } from '../schemas/node.ts'
import { ActivityQueues } from './activity-queues.ts'
import { closeNode, type NodeParts, openNode } from './node-parts.ts'
import { wantedQueues } from './node-queues.ts'
import { temporalLogger } from './temporal-logger.ts'
import { Yielding } from './yielding.ts'

/** Trainers checkpoint within it; all of a stop stays below 8 s. */
const GRACE_MS = 3_000

/** Runs a node until told to stop: joins, links up, and takes work from the queues that fit what it has. */
async function main(): Promise<void> {
  const config = readConfig()
  const log = createLogger('node', config.HEARTH_LOG_LEVEL)
  const stop = stopSignal()
  Runtime.install({ logger: temporalLogger(log), shutdownSignals: [] })

  usableFolder('HEARTH_NODE_DIR', config.HEARTH_NODE_DIR)
  usableFolder('HEARTH_CACHE_DIR', config.HEARTH_CACHE_DIR)
  const yielding = new Yielding()
  let followModels = () => {}
  let sharing: NodeSharing | undefined
  const node = await openNode(config, log, {
    catalog: loadCatalog(),
    isDraining: () => yielding.isDraining,
    onDraining: (draining) => {
      if (stop.aborted || !yielding.drain(draining)) return
      log.info(draining ? 'draining: taking nothing new' : 'taking work again')
      followModels()
      node.links.reportNow()
    },
    onSharing: (now) => {
      if (now === sharing) return
      sharing = now
      log.info(
        { sharing },
        sharing === 'shared' ? 'working for every account' : 'working for its own account',
      )
      followModels()
    },
  })
  await using stack = new AsyncDisposableStack()
  stack.defer(() => log.info('stopped'))
  stack.defer(() => closeNode(node))
  const queues = await openQueues(node, stack, { config, log, stop, yielding })
  followModels = () => queues.want(wantedQueues(node, { draining: yielding.isDraining, sharing }))
  node.models.onChange(() => followModels())
  followModels()
  log.info({ node_id: node.identity.nodeId, ...node.inventory }, 'taking work')

  await aborted(stop)
  yielding.stop()
  followModels = () => {}
  node.links.reportNow()
}

interface Surroundings {
  config: Config
  log: Logger
  stop: AbortSignal
  yielding: Yielding
}

/** The way to Temporal; nothing is polled yet. Closed with the stack, before the node itself. */
async function openQueues(
  node: NodeParts,
  stack: AsyncDisposableStack,
  { config, log, stop, yielding }: Surroundings,
): Promise<ActivityQueues> {
  const { TEMPORAL_ADDRESS: own, TEMPORAL_NAMESPACE } = config
  const told = own === undefined ? await Promise.race([node.links.temporal, rejected(stop)]) : undefined
  const connection = await connectTemporal(told?.address ?? own ?? '', log, stop)
  stack.defer(() => connection.close())

  const nodeId = node.identity.nodeId
  const activities = createNodeActivities({ ...node, nodeId, stopping: () => yielding.signal, log })
  const namespace = told?.namespace ?? TEMPORAL_NAMESPACE
  return stack.use(new ActivityQueues({ connection, namespace, activities, graceMs: GRACE_MS, log }))
}

/** Temporal may come up after the node. */
async function connectTemporal(address: string, log: Logger, signal: AbortSignal): Promise<NativeConnection> {
  for (let tries = 0; ; tries++) {
    signal.throwIfAborted()
    try {
      return await NativeConnection.connect({ address })
    } catch (err) {
      if (tries % 10 === 0) log.warn({ reason: String(err) }, 'waiting for Temporal')
      await sleep(Math.min(100 * 2 ** tries, 2_000), undefined, { signal })
    }
  }
}

/** Aborts when this process is asked to end. */
function stopSignal(): AbortSignal {
  const controller = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => controller.abort())
  return controller.signal
}

const rejected = (signal: AbortSignal): Promise<never> =>
  aborted(signal).then(() => Promise.reject(signal.reason as Error))

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

main().catch((err: unknown) => {
  if (err instanceof Error && err.name === 'AbortError') return
  const isPlain = err instanceof ConfigError || err instanceof JoinError
  process.stderr.write(`${isPlain ? err.message : ((err as Error).stack ?? String(err))}\n`)
  process.exitCode = isPlain ? 2 : 1
})
