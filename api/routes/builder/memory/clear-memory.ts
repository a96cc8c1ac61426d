import Type from 'typebox'
import * as memoryEntryRepository from '../../../../db/repositories/memory/entries.ts'
import { route } from '../../../http/route.ts'

export const clearMemory = route({
  operationId: 'clearMemory',
  summary: 'Forget everything that the account has remembered',
  method: 'DELETE',
  path: '/memory/entries',
  auth: 'api-key',
  servedWith: 'HEARTH_MEMORY',
  query: Type.Object({
    // Undeclared parameters are ignored, so one meant to choose entries would lose all of them.
    all: Type.Literal(true, { description: 'Confirms that every entry is to go' }),
  }),
  success: { status: 200, schema: Type.Object({ deleted: Type.Integer() }) },

  async handler({ caller: { accountId } }, { db }) {
    const deleted = await db
      .transaction()
      .execute((trx) => memoryEntryRepository.clearEntries(trx, accountId))
    return { deleted }
  },
})
