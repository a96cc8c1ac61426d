import * as memoryNamespaceRepository from '../../../../db/repositories/memory/namespaces.ts'
import { MemoryStatus } from '../../../../schemas/memory.ts'
import { route } from '../../../http/route.ts'
import { presentStatus } from '../../../memory/present.ts'

export const getMemoryStatus = route({
  operationId: 'getMemoryStatus',
  summary: "Check whether a task submitted now would carry the account's memory",
  method: 'GET',
  path: '/memory/status',
  auth: 'api-key',
  servedWith: 'HEARTH_MEMORY',
  success: { status: 200, schema: MemoryStatus },

  async handler({ caller: { accountId } }, services) {
    return presentStatus(services, await memoryNamespaceRepository.viewNamespace(services.db, accountId))
  },
})
