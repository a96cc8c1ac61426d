import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { MAX_INGESTS } from '../activities/control/datasets/datasets.ts'
import { createControlActivities } from '../activities/control/index.ts'
import { createWebhookActivities } from '../activities/control/webhooks/index.ts'
import { DatabaseClock } from '../db/clock.ts'
import { openDatabase } from '../db/database.ts'
import { migrate, SchemaTooNewError } from '../db/migrate.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { type Config, ConfigError, readConfig, required } from '../platform/config.ts'
import { usableFolder } from '../platform/config/folder.ts'
import { openEgressPolicy } from '../platform/egress/policy.ts'
import { PublicSender } from '../platform/egress/public-sender.ts'
import { createLogger, type Logger } from '../platform/log.ts'
import { openObjectStore } from '../platform/object-store/open.ts'
import { ownNamespaces } from '../platform/processes/own-namespaces.ts'
import { SecretBox } from '../platform/secret-box.ts'
import { temporalAccess } from '../platform/temporal.ts'
import { QUEUES } from '../workflows/contract/policy.ts'
import { workflowBundle } from './bundle.ts'
import { emit } from './control/events.ts'
import { retry, stopSignal } from './process.ts'
import { ensureSchedules } from './schedules.ts'
import { openTemporalRuntime } from './temporal-logger.ts'

const WORKER_OPTIONS = {
  maxCachedWorkflows: 500,
  // With the default throttle, an activity gets its cancellation 6 to 9 s late.
  maxHeartbeatThrottleInterval: '500ms',
  defaultHeartbeatThrottleInterval: '500ms',
  // The supervisor allows 1.5 s: short steps end within that time, and an ingest starts over.
  shutdownGraceTime: '1s',
  shutdownForceTime: '5s',
} as const

/** Excludes files that wait for a reader, which have their own limit so that they do not block other activities. */
const MAX_ACTIVITIES = 100

/** The interval for checking that the permanent workflows are running. */
const CHECK_INTERVAL_MS = 300_000

/** Runs every workflow and the control-plane activities until the process is stopped. */
async function main(): Promise<void> {
  const config = readConfig()
  const log = createLogger('control', config.HEARTH_LOG_LEVEL)
  const stop = stopSignal().signal
  await using _runtime = openTemporalRuntime(log)

  await using db = openDatabase(required(config, 'DATABASE_URL'))
  const isFinal = (err: unknown) => err instanceof SchemaTooNewError
  await retry('PostgreSQL', () => migrate(db), { log, signal: stop, isFinal })
  const connection = await retry('Temporal', () => connect(config), { log, signal: stop })
  const temporal = new Client({ connection, namespace: config.TEMPORAL_NAMESPACE })
  try {
    const objects = await openObjectStore(config)
    const catalog = loadCatalog()
    using clock = await retry('PostgreSQL', () => DatabaseClock.open(db), { log, signal: stop })
    const now = () => clock.now()
    if ((await ownNamespaces()).length === 0) emit(log, 'worker.readers_exposed')
    usableFolder('HEARTH_CACHE_DIR', config.HEARTH_CACHE_DIR)
    const bundle = await workflowBundle(config.HEARTH_CACHE_DIR)
    const queue = (taskQueue: string, activities: object, mostAtOnce = MAX_ACTIVITIES) =>
      Worker.create({
        ...WORKER_OPTIONS,
        connection,
        namespace: config.TEMPORAL_NAMESPACE,
        workflowBundle: bundle,
        taskQueue,
        activities,
        maxConcurrentActivityTaskExecutions: mostAtOnce,
      })
    const hasWebhooks = config.HEARTH_FEATURES.includes('webhooks')
    await using sender = new PublicSender(openEgressPolicy(config))
    const secretBox = () => new SecretBox(config.HEARTH_ENCRYPTION_KEYS)
    const workers = [
      await queue(
        QUEUES.control,
        createControlActivities({ db, objects, temporal, catalog, config, log, now }),
        MAX_ACTIVITIES + MAX_INGESTS,
      ),
      ...(hasWebhooks
        ? [
            await queue(
              QUEUES.webhooks,
              createWebhookActivities({ db, config, sender, secretBox: secretBox(), log, now }),
            ),
          ]
        : []),
    ]
    const shutDown = () => {
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
    }
    stop.addEventListener('abort', shutDown)
    const running = Promise.all(workers.map((worker) => worker.run()))
    emit(log, 'worker.started', {
      queues: workers.map(({ options }) => options.taskQueue),
      temporal: config.TEMPORAL_ADDRESS,
    })
    const schedules = superviseSchedules(temporal, { hasWebhooks }, { log, signal: stop }).catch(
      (err: unknown) => stop.aborted || emit(log, 'worker.schedules_failed', { err }),
    )
    if (stop.aborted) shutDown()
    await running
    await schedules
    emit(log, 'worker.stopped')
  } finally {
    await connection.close()
  }
}

/** Repeats the check, so that a workflow that an operator ended by mistake is restarted. */
async function superviseSchedules(
  temporal: Client,
  features: { hasWebhooks: boolean },
  life: { log: Logger; signal: AbortSignal },
): Promise<never> {
  for (;;) {
    await retry('Temporal', () => ensureSchedules(temporal, life.log, features), life)
    await sleep(CHECK_INTERVAL_MS, undefined, { signal: life.signal })
  }
}

const connect = (config: Config) => NativeConnection.connect(temporalAccess(config))

main().catch((err: unknown) => {
  if (err instanceof Error && err.name === 'AbortError') return
  process.stderr.write(
    `${err instanceof ConfigError ? err.message : ((err as Error).stack ?? String(err))}\n`,
  )
  process.exitCode = err instanceof ConfigError ? 2 : 1
})
