import Type from 'typebox'
import * as memoryEntryRepository from '../../../../db/repositories/memory/entries.ts'
import { route } from '../../../http/route.ts'

export const clearMemory = route({
  operationId: 'clearMemory',
  summary: "Delete all entries of the account's memory",
  method: 'DELETE',
  path: '/memory/entries',
  auth: 'api-key',
  servedWith: 'HEARTH_MEMORY',
  query: Type.Object({
    // Undeclared parameters are ignored, so without this a request meant to delete some entries would delete all.
    all: Type.Literal(true, { description: 'Confirms that every entry should be deleted' }),
  }),
  success: { status: 200, schema: Type.Object({ deleted: Type.Integer() }) },

  async handler({ caller: { accountId } }, { db }) {
    const deleted = await db
      .transaction()
      .execute((trx) => memoryEntryRepository.clearEntries(trx, accountId))
    return { deleted }
  },
})
