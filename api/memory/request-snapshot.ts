import type { Transaction } from 'kysely'
import * as memoryNamespaceRepository from '../../db/repositories/memory/namespaces.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../db/tables.ts'
import { memorySnapshotStart } from '../../workflows/contract/starts.ts'

/**
 * Asks for a snapshot in the transaction of a change. Changes that come before it has begun share one. `modelKey` is the
 * model of embeddings whose vectors it waits for.
 */
export async function requestSnapshot(
  trx: Transaction<Database>,
  { id: namespaceId, account_id: accountId }: { id: string; account_id: string },
  modelKey: string | undefined,
): Promise<void> {
  const build = await memoryNamespaceRepository.wantSnapshot(trx, namespaceId)
  if (build === undefined) return
  await workflowStartRepository.enqueueWorkflow(
    trx,
    memorySnapshotStart({ namespaceId, accountId, build, modelKey }),
  )
}
