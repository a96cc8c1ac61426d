import * as memoryGrantRepository from '../../../../../db/repositories/memory/grants.ts'
import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import type { AccountMemory } from '../../../../../schemas/memory.ts'
import { presentStatus } from '../../../../memory/present.ts'
import type { Services } from '../../../../services.ts'

/** The error for an account without memory. */
export const noMemory = (): ApiError =>
  new ApiError('not_found', 'this account has no memory; enable it first')

/** Returns an account's memory as operators see it; throws a 404 if there is none. */
export async function readAccountMemory(
  services: Pick<Services, 'db' | 'now'>,
  accountId: string,
): Promise<AccountMemory> {
  const { db } = services
  const view = await memoryNamespaceRepository.viewNamespace(db, accountId)
  if (!view) throw noMemory()
  const { namespace, snapshot, entries } = view
  const grants = await memoryGrantRepository.listGrants(db, namespace.id)
  return {
    account_id: accountId,
    ...presentStatus(services, view),
    entries,
    snapshot: snapshot
      ? {
          snapshot_id: snapshot.id,
          entries: snapshot.entries,
          ready_at: snapshot.ready_at?.toISOString() ?? null,
        }
      : null,
    grants: grants.map(({ api_key_id, access, created_at }) => ({
      key_id: api_key_id,
      access,
      created_at: created_at.toISOString(),
    })),
  }
}
