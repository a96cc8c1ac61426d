import type { Kysely } from 'kysely'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import * as taskWriteRepository from '../../../db/repositories/tasks/writes.ts'
import type { Database } from '../../../db/tables.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

const INTERVAL_MS = 3_000
const BATCH = 200

/**
 * Fails and refunds the open tasks of gateways whose lease has expired, except `gatewayId`; returns the number of
 * tasks.
 */
export async function reapOrphans(db: Kysely<Database>, now: Date, gatewayId?: string): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const tasks = await taskRepository.lockOrphans(trx, { own: gatewayId, limit: BATCH })
    if (tasks.length === 0) return 0
    const error = 'the gateway that ran this task was lost'
    const settlements = tasks.map((task) =>
      taskRepository.settlementOf(task, { status: 'failed', error }, { now }),
    )
    return taskWriteRepository.settleTasks(trx, settlements)
  })
}

/**
 * Periodically reaps the open rows of lost gateways. Every gateway runs this and skips rows that another one has
 * locked.
 */
export const startReaper = (db: Kysely<Database>, log: Logger, gatewayId: string): BackgroundLoop =>
  new BackgroundLoop(
    async () => {
      const count = await reapOrphans(db, new Date(), gatewayId)
      if (count > 0) emit(log, 'task.reaped', { count })
    },
    { everyMs: INTERVAL_MS, onError: (err) => emit(log, 'task.reap_failed', { err }) },
  ).start()
