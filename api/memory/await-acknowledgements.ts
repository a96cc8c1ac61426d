import * as memoryAcknowledgementRepository from '../../db/repositories/memory/acknowledgements.ts'
import { awaitGateways } from '../await-gateways.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/**
 * Waits until every live gateway has passed on everything that it read before a committed change. Reads that start
 * after the change return nothing, because each read checks its grant in the database, even at a silent gateway.
 */
export async function awaitAcknowledgements({ db, log }: Pick<Services, 'db' | 'log'>): Promise<void> {
  const version = await memoryAcknowledgementRepository.readMemoryVersion(db)
  const late = await awaitGateways(async () =>
    (await memoryAcknowledgementRepository.isAcknowledged(db, version)) ? undefined : { version },
  )
  if (late) emit(log, 'memory.unacknowledged', late)
}
