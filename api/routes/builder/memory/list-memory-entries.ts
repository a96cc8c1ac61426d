import * as memoryEntryRepository from '../../../../db/repositories/memory/entries.ts'
import { PageQuery, pageOf } from '../../../../schemas/common.ts'
import { MemoryEntry } from '../../../../schemas/memory.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentEntry } from '../../../memory/present.ts'

export const listMemoryEntries = route({
  operationId: 'listMemoryEntries',
  summary: "List the account's memory entries, newest first, including superseded ones",
  method: 'GET',
  path: '/memory/entries',
  auth: 'api-key',
  role: 'admin',
  servedWith: 'HEARTH_MEMORY',
  query: PageQuery,
  success: { status: 200, schema: pageOf('entries', MemoryEntry) },
  isLong: true,

  async handler({ caller: { accountId }, query }, services) {
    const { items, next_cursor } = await readPage(query, ['memory', accountId], (page) =>
      memoryEntryRepository.listEntries(services.db, accountId, page),
    )
    return { entries: items.map((entry) => presentEntry(services, entry)), next_cursor }
  },
})
