import { ApiError } from '../../../../domain/errors.ts'
import { AddedMemoryEntry, AddMemoryEntry } from '../../../../schemas/memory.ts'
import { route } from '../../../http/route.ts'
import { addEntries } from '../../../memory/add-entries.ts'

export const addMemoryEntry = route({
  operationId: 'addMemoryEntry',
  summary: 'Store text for later requests to language models; needs a write grant or the admin role',
  method: 'POST',
  path: '/memory/entries',
  auth: 'api-key',
  servedWith: 'HEARTH_MEMORY',
  idempotent: true,
  body: AddMemoryEntry,
  success: { status: 201, schema: AddedMemoryEntry },
  errors: ['forbidden', 'conflict'],

  async handler({ caller: { accountId, keyId, role }, body, trx, afterCommit }, services) {
    const { text, source = 'api', supersedes } = body
    const writer = { accountId, keyId, needsGrant: role !== 'admin' }
    const [entry] = await addEntries(trx, services, writer, [{ text, source, supersedes }])
    if (!entry) throw new ApiError('internal', 'the entry was not stored')
    afterCommit(() => services.memory.changed())
    return { entry_id: entry.id, source: entry.source, created_at: entry.created_at.toISOString() }
  },
})
