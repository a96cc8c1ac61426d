import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import * as killSwitchRepository from '../../db/repositories/platform/kill-switch.ts'
import * as operationsRepository from '../../db/repositories/platform/operator-views.ts'
import type { Database } from '../../db/tables.ts'
import { attentionOf } from '../../domain/attention.ts'
import { silentSince } from '../../domain/placement/silence.ts'
import type { Config } from '../../platform/config.ts'
import { VERSION } from '../../platform/version.ts'
import type { Overview, Queues } from '../../schemas/operations.ts'
import type { Workers } from '../../schemas/platform-views.ts'
import type { CopyPlanner } from '../gateway/background/copy-planner.ts'
import type { HealthProbe } from '../gateway/background/health-probe.ts'
import type { StorageMonitor } from '../gateway/background/storage-monitor.ts'
import { CachedRead } from '../gateway/caches/cached-read.ts'
import { describeQueues } from './task-queues.ts'
import { listPollers } from './workers.ts'

/** A gateway queries Temporal at most this often, however many consoles are open. */
const QUEUES_TTL_MS = 5_000
const OVERVIEW_TTL_MS = 2_000
const RECENT_MS = 5 * 60_000

interface Deps {
  readonly db: Kysely<Database>
  readonly temporal: Client
  readonly config: Pick<Config, 'TEMPORAL_NAMESPACE'>
  readonly health: HealthProbe
  readonly room: Pick<StorageMonitor, 'read'>
  readonly copyPlanner: Pick<CopyPlanner, 'preview'>
  readonly now: () => Date
}

/** The operators' view of the platform as a whole. */
export class OperatorViews {
  readonly #services: Deps
  readonly #queues = new CachedRead(() => this.#readQueues(), QUEUES_TTL_MS)
  readonly #workers = new CachedRead(() => this.#readWorkers(), QUEUES_TTL_MS)
  readonly #overview = new CachedRead(() => this.#readOverview(), OVERVIEW_TTL_MS)

  constructor(services: Deps) {
    this.#services = services
  }

  queues(): Promise<Queues> {
    return this.#queues.get()
  }

  workers(): Promise<Workers> {
    return this.#workers.get()
  }

  overview(): Promise<Overview> {
    return this.#overview.get()
  }

  async #readQueues(): Promise<Queues> {
    const { db, temporal, config, now } = this.#services
    const work = operationsRepository.countOpenWork(db)
    const names = await operationsRepository.listJobQueues(db)
    const queues = await describeQueues(temporal, config.TEMPORAL_NAMESPACE, names).catch(() => undefined)
    return {
      measured_at: now().toISOString(),
      work: await work,
      temporal: queues ? 'ok' : 'unreachable',
      queues: queues ?? [],
    }
  }

  async #readWorkers(): Promise<Workers> {
    const { temporal, config, now } = this.#services
    const workers = await listPollers(temporal, config.TEMPORAL_NAMESPACE).catch(() => undefined)
    return {
      measured_at: now().toISOString(),
      temporal: workers ? 'ok' : 'unreachable',
      workers: workers ?? [],
    }
  }

  async #readOverview(): Promise<Overview> {
    const { db, health, room, copyPlanner, now } = this.#services
    const at = now()
    const checked = health.check()
    const silent = silentSince(at)
    // Run these queries one after another, so an open console uses only one connection from the pool.
    const nodes = await operationsRepository.countNodes(db, silent)
    const gateFaults = await operationsRepository.listGateFaults(db, silent)
    const models = await operationsRepository.countModels(db, silent)
    const failing = await operationsRepository.listFailingModels(db, silent)
    const gpuFaults = await operationsRepository.listGpuFaults(db, silent)
    const fullNodes = await operationsRepository.listFullNodes(db, silent)
    const work = await operationsRepository.countOpenWork(db)
    const requests = await operationsRepository.readRecentRequests(db, new Date(at.getTime() - RECENT_MS))
    const unplaced = await operationsRepository.readUnplaced(db)
    const waitingRuns = await operationsRepository.listWaitingReasons(db)
    const reviews = await operationsRepository.countReviews(db)
    const gateways = await operationsRepository.listGateways(db, silent)
    const killSwitch = await killSwitchRepository.readKillSwitch(db)
    const { short } = (await copyPlanner.preview()).plan
    const { database, temporal, storage } = await checked
    const { room: disk } = await room.read()
    const freeMb = disk && Math.floor(disk.freeBytes / 1024 ** 2)
    const { missing, ...counts } = nodes
    return {
      measured_at: at.toISOString(),
      version: VERSION,
      attention: attentionOf({
        killSwitch,
        database,
        temporal,
        storage: { ...storage, ...(freeMb !== undefined && { freeMb }) },
        offline: { count: counts.offline, some: missing },
        online: counts.online + counts.draining,
        gpuFaults,
        gateFaults,
        fullNodes,
        unplaced,
        waitingRuns,
        failing,
        short,
        reviews,
        work,
      }),
      database,
      temporal,
      kill_switch: {
        active: killSwitch.active,
        reason: killSwitch.reason,
        changed_at: killSwitch.changed_at.toISOString(),
      },
      nodes: counts,
      models,
      work,
      requests,
      gateways: gateways.map(({ id, started_at, ...gateway }) => ({
        gateway_id: id,
        ...gateway,
        started_at: started_at.toISOString(),
      })),
    }
  }
}
