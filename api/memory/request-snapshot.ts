import type { Transaction } from 'kysely'
import * as memoryNamespaceRepository from '../../db/repositories/memory/namespaces.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../db/tables.ts'
import { memorySnapshotStart } from '../../workflows/contract/starts.ts'

/**
 * Requests a snapshot in the transaction that makes a change. Changes made before it starts building share one
 * snapshot. `modelKey` is the embedding model whose vectors it waits for.
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
