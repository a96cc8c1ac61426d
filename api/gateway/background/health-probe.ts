import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import pTimeout from 'p-timeout'
import { ping } from '../../../db/database.ts'
import type { Database } from '../../../db/tables.ts'
import { VERSION } from '../../../platform/version.ts'
import type { Health, SystemHealth } from '../../../schemas/health.ts'

const PATIENCE_MS = 1_500
/** More frequent callers get the previous result. */
const FRESH_MS = 500

/** Checks whether the systems behind this gateway respond; concurrent callers share one check. */
export class HealthProbe {
  readonly #db: Kysely<Database>
  readonly #temporal: Client
  #reading: Promise<Health> | undefined
  #freshUntil = 0

  constructor(db: Kysely<Database>, temporal: Client) {
    this.#db = db
    this.#temporal = temporal
  }

  check(): Promise<Health> {
    if (this.#reading && performance.now() < this.#freshUntil) return this.#reading
    this.#freshUntil = Infinity
    this.#reading = this.#read().finally(() => {
      this.#freshUntil = performance.now() + FRESH_MS
    })
    return this.#reading
  }

  async #read(): Promise<Health> {
    const [database, temporal] = await Promise.all([
      timed(() => ping(this.#db)),
      timed(() =>
        this.#temporal.withDeadline(Date.now() + PATIENCE_MS, () =>
          this.#temporal.workflowService.getSystemInfo({}),
        ),
      ),
    ])
    const status = database.status !== 'ok' ? 'unavailable' : temporal.status === 'ok' ? 'ok' : 'degraded'
    return { status, version: VERSION, database, temporal }
  }
}

async function timed(ask: () => Promise<unknown>): Promise<SystemHealth> {
  const startedAt = performance.now()
  try {
    await pTimeout(ask(), { milliseconds: PATIENCE_MS })
    return { status: 'ok', latency_ms: Math.round((performance.now() - startedAt) * 10) / 10 }
  } catch {
    return { status: 'unreachable', latency_ms: null }
  }
}
