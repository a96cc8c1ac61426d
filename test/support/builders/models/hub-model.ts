import { hubKey } from '../../../../domain/hub/files.ts'
import type { TestApi } from '../../servers/api.ts'
import { commitOf, type HubRepo, type TestHub } from '../../servers/hub-server.ts'
import { addModel } from '../../servers/nodes/node.ts'

/** Adds a model of the tiny runtime whose weights are on the hub; returns its key. */
export async function addHubModel(
  api: TestApi,
  hub: TestHub,
  weights: Parameters<typeof addModel>[1],
  { gated = false }: { gated?: boolean } = {},
): Promise<{ modelKey: string; versionId: string }> {
  const { db } = api.database
  const modelKey = await addModel(api, weights)
  const { id } = await db
    .selectFrom('model_version')
    .select('id')
    .where('model_key', '=', modelKey)
    .executeTakeFirstOrThrow()
  const repo: HubRepo = {
    repoId: `acme/${modelKey}`,
    files: { 'weights.bin': Buffer.from(JSON.stringify(weights)) },
    ...(gated && { gated: 'manual' }),
  }
  hub.put(repo)
  const object_key = hubKey({ repoId: repo.repoId, revision: commitOf(repo), path: 'weights.bin' })
  await db.updateTable('version_file').set({ object_key }).where('version_id', '=', id).execute()
  return { modelKey, versionId: id }
}
