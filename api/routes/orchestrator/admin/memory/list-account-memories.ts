import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import { PageQuery, pageOf } from '../../../../../schemas/common.ts'
import { AccountMemory } from '../../../../../schemas/memory.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'
import { readAccountMemory } from './account-memory.ts'

export const listAccountMemories = route({
  operationId: 'listAccountMemories',
  summary: 'List the memories of all accounts, without contents',
  method: 'GET',
  path: '/admin/memories',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  query: PageQuery,
  success: { status: 200, schema: pageOf('memories', AccountMemory) },

  async handler({ query }, services) {
    const { items, next_cursor } = await readPage(query, ['memories'], (page) =>
      memoryNamespaceRepository.listNamespaces(services.db, page),
    )
    const memories = []
    for (const { account_id } of items) memories.push(await readAccountMemory(services, account_id))
    return { memories, next_cursor }
  },
})
