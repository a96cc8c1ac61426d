import * as memoryAcknowledgementRepository from '../../db/repositories/memory/acknowledgements.ts'
import { awaitGateways } from '../await-gateways.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/**
 * Waits until every live gateway has handed on what it read before a change that has been committed. What begins after
 * the change reads nothing, because each read checks its grant in the database, those of a silent gateway too.
 */
export async function awaitAcknowledgements({ db, log }: Pick<Services, 'db' | 'log'>): Promise<void> {
  const version = await memoryAcknowledgementRepository.readMemoryVersion(db)
  const late = await awaitGateways(async () =>
    (await memoryAcknowledgementRepository.isAcknowledged(db, version)) ? undefined : { version },
  )
  if (late) emit(log, 'memory.unacknowledged', late)
}
