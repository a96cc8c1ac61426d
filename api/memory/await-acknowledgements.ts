import { setTimeout as sleep } from 'node:timers/promises'
import * as memoryAcknowledgementRepository from '../../db/repositories/memory/acknowledgements.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/** The longest wait for gateways. The reads of one that is silent for longer find the grant revoked by themselves. */
const LONGEST_MS = 2_000
const LOOK_MS = 10

/**
 * Waits until every live gateway has handed on what it read before a change that has been committed. What begins after
 * the change reads nothing, because each read checks its grant in the database.
 */
export async function awaitAcknowledgements({ db, log }: Pick<Services, 'db' | 'log'>): Promise<void> {
  const version = await memoryAcknowledgementRepository.readMemoryVersion(db)
  const deadline = performance.now() + LONGEST_MS
  while (!(await memoryAcknowledgementRepository.isAcknowledged(db, version))) {
    if (performance.now() > deadline) return emit(log, 'memory.unacknowledged', { version })
    await sleep(LOOK_MS)
  }
}
