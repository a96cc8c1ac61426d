import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import pTimeout from 'p-timeout'
import { ping } from '../../../db/database.ts'
import type { Database } from '../../../db/tables.ts'
import { VERSION } from '../../../platform/version.ts'
import type { Health, SystemHealth } from '../../../schemas/health.ts'
import { CachedRead } from '../caches/cached-read.ts'
import type { StorageMonitor, Storage } from './storage-monitor.ts'

const TIMEOUT_MS = 1_500
/** Callers within this time get the previous result. */
const RESULT_TTL_MS = 500

/** Checks whether the systems behind this gateway respond; concurrent callers share one check. */
export class HealthProbe {
  readonly #db: Kysely<Database>
  readonly #temporal: Client
  readonly #room: Pick<StorageMonitor, 'read'>
  readonly #health = new CachedRead(() => this.#read(), RESULT_TTL_MS)

  constructor(db: Kysely<Database>, temporal: Client, room: Pick<StorageMonitor, 'read'>) {
    this.#db = db
    this.#temporal = temporal
    this.#room = room
  }

  check(): Promise<Health> {
    return this.#health.get()
  }

  /** Returns why this gateway can't serve; an empty list if it can. Without Temporal, accepted work only waits. */
  async notReady(): Promise<readonly string[]> {
    const { status, reasons } = await this.check()
    return status === 'unavailable' ? reasons : []
  }

  async #read(): Promise<Health> {
    const [database, temporal, { room: _room, ...storage }] = await Promise.all([
      timed(() => ping(this.#db)),
      timed(() =>
        this.#temporal.withDeadline(Date.now() + TIMEOUT_MS, () =>
          this.#temporal.workflowService.getSystemInfo({}),
        ),
      ),
      this.#storage(),
    ])
    const reasons = [...reasonsOf({ database, temporal, storage })]
    const status = database.status !== 'ok' ? 'unavailable' : reasons.length === 0 ? 'ok' : 'degraded'
    return { status, version: VERSION, database, temporal, storage, reasons }
  }

  /** A hanging database can't report its free space. */
  #storage(): Promise<Storage> {
    const unknown: Storage = { room: undefined, objects: 'ok', database: 'ok' }
    return pTimeout(this.#room.read(), { milliseconds: TIMEOUT_MS, fallback: () => unknown })
  }
}

function* reasonsOf({
  database,
  temporal,
  storage,
}: Pick<Health, 'database' | 'temporal' | 'storage'>): Generator<string> {
  if (database.status !== 'ok') yield 'PostgreSQL is not responding'
  if (temporal.status !== 'ok') yield 'Temporal is not responding; accepted work is waiting'
  if (storage.database === 'full') yield "PostgreSQL's disk is full; writes are rejected and work is waiting"
  if (storage.objects === 'full')
    yield 'the object store is full; uploads are rejected and results are waiting'
}

async function timed(ask: () => Promise<unknown>): Promise<SystemHealth> {
  const startedAt = performance.now()
  try {
    await pTimeout(ask(), { milliseconds: TIMEOUT_MS })
    return { status: 'ok', latency_ms: Math.round((performance.now() - startedAt) * 10) / 10 }
  } catch {
    return { status: 'unreachable', latency_ms: null }
  }
}
