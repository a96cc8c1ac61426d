import Type from 'typebox'
import * as memoryEntryRepository from '../../../../db/repositories/memory/entries.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'

export const deleteMemoryEntry = route({
  operationId: 'deleteMemoryEntry',
  summary: 'Delete a memory entry; queued requests do not recall it either',
  method: 'DELETE',
  path: '/memory/entries/{entry_id}',
  auth: 'api-key',
  servedWith: 'HEARTH_MEMORY',
  params: Type.Object({ entry_id: Uuid }),
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ caller: { accountId }, params: { entry_id: id } }, { db }) {
    if (!(await memoryEntryRepository.deleteEntry(db, { accountId, id })))
      throw new ApiError('not_found', 'there is no entry with this id')
  },
})
