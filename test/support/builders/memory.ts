import { createMemoryActivities } from '../../../activities/control/memory/snapshots.ts'
import { type AnyBody, type Answer, OPERATIONS_KEY, type TestApi } from '../servers/api.ts'

const ADMIN = '/api/v1/admin'
const BUILDER = '/api/builder/v1'

/** Calls an admin route with the operations key. */
export const callAdmin = (
  api: TestApi,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer<AnyBody>> =>
  api.call(method, ADMIN + path, { key: OPERATIONS_KEY, ...(body !== undefined && { body }) })

/** Builds the requested snapshots, as the workflow does. */
export async function buildSnapshots({ database: { db }, services }: TestApi): Promise<void> {
  const activities = createMemoryActivities(services)
  const modelKey = (await services.memory.modelKey()) ?? null
  const wanted = await db
    .selectFrom('memory_namespace')
    .select(['id', 'wanted_build'])
    .where('wanted_build', 'is not', null)
    .execute()
  for (const { id: namespaceId, wanted_build: build } of wanted) {
    const frozen = await activities.freezeMemory({ namespaceId, build: build ?? 0, modelKey })
    if (frozen) await activities.publishMemory({ namespaceId, snapshotId: frozen.snapshotId })
  }
  await services.memory.refresh()
}

/** Returns the id of an account's API key, given the key itself. */
export async function keyIdOf(api: TestApi, key: string): Promise<string> {
  const found = api.services.keys.find(key)
  const caller = typeof found === 'function' ? await found() : found
  if (!caller) throw new Error('there is no such key')
  return caller.keyId
}

export const grantMemory = async (api: TestApi, key: string, access: 'read' | 'write'): Promise<void> => {
  const { status, text } = await callAdmin(
    api,
    'PUT',
    `/keys/${await keyIdOf(api, key)}/memory-grants/${access}`,
  )
  if (status !== 200) throw new Error(text)
}

export const revoke = async (api: TestApi, key: string, access: 'read' | 'write'): Promise<Answer<AnyBody>> =>
  callAdmin(api, 'DELETE', `/keys/${await keyIdOf(api, key)}/memory-grants/${access}`)

/** Enables memory for an account, with a key that may read and write it and a first snapshot. */
export async function enableMemory(api: TestApi, { accountId, key }: { accountId: string; key: string }) {
  const { status, text } = await callAdmin(api, 'POST', `/accounts/${accountId}/memory/enable`)
  if (status !== 200) throw new Error(text)
  await grantMemory(api, key, 'read')
  await grantMemory(api, key, 'write')
  await buildSnapshots(api)
}

/** Adds an entry with a key of the account; returns its id. */
export async function remember(api: TestApi, key: string, text: string, more: object = {}): Promise<string> {
  const answer = await api.call('POST', `${BUILDER}/memory/entries`, { key, body: { text, ...more } })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body.entry_id
}
