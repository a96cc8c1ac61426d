import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import { ImportedMemory, ImportMemory } from '../../../../../schemas/memory.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { addEntries } from '../../../../memory/add-entries.ts'
import { params } from '../accounts/account.ts'
import { noMemory } from './account-memory.ts'

const MAX_BYTES = 16 * 1024 * 1024

export const importMemory = route({
  operationId: 'importMemory',
  summary: "Add entries to an account's memory; existing ones are skipped",
  method: 'POST',
  path: '/admin/accounts/{account_id}/memory/import',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params,
  idempotent: true,
  body: ImportMemory,
  maxBodyBytes: MAX_BYTES,
  success: { status: 201, schema: ImportedMemory },
  errors: ['not_found', 'conflict'],

  async handler({ params: { account_id: accountId }, body, trx, afterCommit }, services) {
    if (!(await memoryNamespaceRepository.findNamespace(trx, accountId))) throw noMemory()
    const entries = body.entries.map(({ text, source = 'import', created_at }) => ({
      text,
      source,
      createdAt: created_at === undefined ? undefined : new Date(created_at),
    }))
    const writer = { accountId, keyId: null, needsGrant: false, leavesOutPresent: true }
    const stored = await addEntries(trx, services, writer, entries)
    const subject = { kind: 'account', id: accountId }
    await audit(trx, { action: 'importMemory', subject, accountId, after: { imported: stored.length } })
    afterCommit(() => services.memory.changed())
    return { imported: stored.length, already_present: entries.length - stored.length }
  },
})
