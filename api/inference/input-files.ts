import * as uploadedInputRepository from '../../db/repositories/tasks/uploaded-inputs.ts'
import type { TaskRow } from '../../db/tables/inference.ts'
import { inputKey } from '../../domain/object-keys.ts'
import { filesOf } from '../../domain/task-types/index.ts'
import { isUuid } from '../../domain/uuid.ts'
import { INPUT_URL_LIFETIME_S } from '../../schemas/inference-task.ts'
import type { TaskClaim } from '../../schemas/task-claim.ts'
import type { Services } from '../services.ts'

/**
 * Returns new URLs for the files of a task's input that its account has uploaded. What an address names is looked up, and
 * nothing is fetched from it, so it does not matter where it leads.
 */
export async function uploadedFilesOf(
  { db, objects }: Pick<Services, 'db' | 'objects'>,
  { account_id, input }: Pick<TaskRow, 'account_id' | 'input'>,
  taskType: string,
): Promise<TaskClaim['files']> {
  const fields = filesOf(taskType)
  if (fields.length === 0 || !input) return undefined
  const value = JSON.parse(input.toString()) as Record<string, unknown>
  const named = fields.flatMap((field) => {
    const id = uploadNamedBy(value[field], account_id)
    return id === undefined ? [] : [{ field, id }]
  })
  const stored = await uploadedInputRepository.findUploadedInputs(
    db,
    account_id,
    named.map(({ id }) => id),
  )
  return Promise.all(
    named.flatMap(({ field, id }) => {
      const key = stored.get(id)
      if (key === undefined) return []
      return [objects.signGet(key, { expiresInS: INPUT_URL_LIFETIME_S }).then(({ url }) => ({ field, url }))]
    }),
  )
}

/** Returns the id of the upload that a URL of `upload-input` is for. */
function uploadNamedBy(url: unknown, accountId: string): string | undefined {
  if (typeof url !== 'string' || url.startsWith('data:') || !URL.canParse(url)) return undefined
  const path = decodeURIComponent(new URL(url).pathname)
  const id = path.split('/').at(-1) ?? ''
  return isUuid(id) && path.endsWith(`/${inputKey(accountId, id)}`) ? id : undefined
}
