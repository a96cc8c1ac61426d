import { newId } from '../../../../domain/ids.ts'
import type { TestApi } from '../../servers/api.ts'

/** Adds a candidate without files and without a test run. */
export async function addCandidate(
  api: TestApi,
  accountId: string,
): Promise<{ versionId: string; modelKey: string }> {
  const versionId = newId()
  const modelKey = `candidate-${versionId.slice(-12)}`
  await api.database.db
    .insertInto('model_version')
    .values({
      id: versionId,
      account_id: accountId,
      model_key: modelKey,
      name: 'candidate',
      model_config_id: 'tiny',
      runtime_profile: 'tiny',
      memory_mb: 50,
      input_schema: '{}',
      output_schema: '{}',
      example_input: '{}',
      example_output: '{}',
    })
    .execute()
  return { versionId, modelKey }
}
