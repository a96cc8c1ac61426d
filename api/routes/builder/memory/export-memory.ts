import { Readable } from 'node:stream'
import * as memoryEntryRepository from '../../../../db/repositories/memory/entries.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { presentEntry } from '../../../memory/present.ts'
import type { Services } from '../../../services.ts'

const PAGE = 500

export const exportMemory = route({
  operationId: 'exportMemory',
  summary: "Download the account's memory: one JSON object per line, newest first",
  method: 'GET',
  path: '/memory/export',
  auth: 'api-key',
  role: 'admin',
  servedWith: 'HEARTH_MEMORY',
  isLong: true,
  success: { status: 200, contentType: 'application/x-ndjson' },

  handler({ caller: { accountId } }, services) {
    return reply(200, Readable.from(lines(services, accountId)), {
      'content-type': 'application/x-ndjson',
      'content-disposition': 'attachment; filename="memory.jsonl"',
    })
  },
})

async function* lines(services: Services, accountId: string): AsyncGenerator<Buffer> {
  for (let before: string | undefined; ;) {
    const page = { limit: PAGE, before }
    const rows = await memoryEntryRepository.listEntries(services.db, accountId, page)
    if (rows.length === 0) return
    yield Buffer.from(rows.map((row) => `${JSON.stringify(presentEntry(services, row))}\n`).join(''))
    before = rows.at(-1)?.id
  }
}
