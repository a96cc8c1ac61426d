import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { newId } from '../../../../domain/ids.ts'
import type { CreateTrainingMerge } from '../../../../schemas/training-merge.ts'
import type { TestApi } from '../../servers/api.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import {
  filesBelow,
  type TinyAdapter,
  type TinyCheckpoint,
  writeAdapter,
  writeCheckpoint,
} from './checkpoints.ts'
import { type LargeCheckpoint, writeLargeCheckpoint } from './large-checkpoint.ts'

export interface NewVersion {
  model?: TinyCheckpoint
  large?: LargeCheckpoint
  adapter?: TinyAdapter
  /** The folder with the version's files. */
  folder?: string
  /** Its model key on queues and nodes. */
  model_key?: string
  runtime_profile?: string
  memory_mb?: number
  job_id?: string
  dataset_id?: string
  visibility?: 'private' | 'public'
  lifecycle_status?: 'candidate' | 'ready' | 'disabled'
  base_model_version_id?: string
}

/** Adds a version of a language model, with its files in the store: `model/`, `adapter/` or both. */
export async function addLlmVersion(
  api: TestApi,
  accountId: string,
  { model, large, adapter, folder: given, ...columns }: NewVersion,
): Promise<string> {
  using folder = temporaryFolder()
  if (model) writeCheckpoint(join(folder.path, 'model'), model)
  if (large) writeLargeCheckpoint(join(folder.path, 'model'), large)
  if (adapter) writeAdapter(join(folder.path, 'adapter'), adapter)
  const { db, objects } = api.services
  const id = newId()
  await db
    .insertInto('model_version')
    .values({
      id,
      account_id: accountId,
      model_key: `llm-${id.slice(-12)}`,
      name: `llm ${id.slice(-4)}`,
      model_config_id: 'llm-qlora-finetune',
      runtime_profile: 'llm-transformers',
      memory_mb: 700,
      input_schema: '{"type":"object"}',
      output_schema: '{"type":"object"}',
      example_input: '{"messages":[]}',
      example_output: '{"choices":[]}',
      ...columns,
    })
    .execute()
  for (const [path, bytes] of filesBelow(given ?? folder.path)) {
    const object_key = `accounts/${accountId}/versions/${id}/${path}`
    await objects.put(object_key, bytes, { contentType: 'application/octet-stream' })
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    await db
      .insertInto('version_file')
      .values({ version_id: id, path, object_key, size_bytes: bytes.length, sha256 })
      .execute()
  }
  return id
}

export const versionRef = (version_id: string) => ({ type: 'model_version' as const, version_id })

/** Starts a merge over REST and returns its id. */
export async function createMerge(
  api: TestApi,
  key: string,
  body: Partial<CreateTrainingMerge>,
): Promise<string> {
  const answer = await api.call('POST', '/api/builder/v1/training/merges', {
    key,
    body: { name: 'merged', ...body },
  })
  assert.equal(answer.status, 202, answer.text)
  return answer.body.job_id
}
