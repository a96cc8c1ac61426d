import * as memoryGrantRepository from '../../../../db/repositories/memory/grants.ts'
import * as memoryNamespaceRepository from '../../../../db/repositories/memory/namespaces.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { RecalledMemory, RecallMemory } from '../../../../schemas/memory.ts'
import { route } from '../../../http/route.ts'
import { requireEnabled } from '../../../memory/add-entries.ts'
import { presentEntry } from '../../../memory/present.ts'

export const recallMemory = route({
  operationId: 'recallMemory',
  summary: 'Recall the entries most similar to a given text, or the newest ones; needs a read grant',
  method: 'POST',
  path: '/memory/recall',
  auth: 'api-key',
  role: 'viewer',
  servedWith: 'HEARTH_MEMORY',
  body: RecallMemory,
  success: { status: 200, schema: RecalledMemory },
  errors: ['forbidden', 'conflict'],

  async handler({ caller: { accountId, keyId }, body: { query, limit = 10 } }, services) {
    const { db, memory } = services
    requireEnabled(await memoryNamespaceRepository.findNamespace(db, accountId))
    if (!(await memoryGrantRepository.hasGrant(db, { accountId, keyId, access: 'read' })))
      throw new ApiError('forbidden', 'this key has no grant to read memory; ask an operator for one')
    const { entries, orderedBy } = await memory.recall({ accountId, keyId }, { query, limit })
    return { entries: entries.map((entry) => presentEntry(services, entry)), ordered_by: orderedBy }
  },
})
