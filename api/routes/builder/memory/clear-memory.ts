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
  success: { status: 200, schema: Type.Object({ deleted: Type.Integer() }) },

  async handler({ caller: { accountId } }, { db }) {
    const deleted = await db
      .transaction()
      .execute((trx) => memoryEntryRepository.clearEntries(trx, accountId))
    return { deleted }
  },
})
