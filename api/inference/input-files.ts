import * as uploadedInputRepository from '../../db/repositories/tasks/uploaded-inputs.ts'
import { inputKey } from '../../domain/object-keys.ts'
import { filesOf } from '../../domain/task-types/index.ts'
import { isUuid } from '../../domain/uuid.ts'
import { INPUT_URL_TTL_S } from '../../schemas/inference-task.ts'
import type { InputFile } from '../../schemas/nodes/link.ts'
import type { TaskClaim } from '../../schemas/nodes/task-claim.ts'
import type { Services } from '../services.ts'

/**
 * Returns fresh URLs for the files in a task's input that its account has uploaded. Calls `readInput` only for tasks
 * whose input may refer to files.
 */
export async function uploadedFilesOf(
  services: Pick<Services, 'db' | 'objects'>,
  { accountId, taskType }: { accountId: string; taskType: string },
  readInput: () => Promise<Buffer | undefined>,
): Promise<TaskClaim['files']> {
  const fields = filesOf(taskType)
  const input = fields.length > 0 ? await readInput() : undefined
  return input && signUploads(services, accountId, addressesIn(input, fields))
}

/** Returns the files of an input that the node must fetch: uploads with fresh URLs, and public URLs. */
export async function filesToFetch(
  services: Pick<Services, 'db' | 'objects'>,
  { account_id, input }: { account_id: string; input: Buffer },
  fields: readonly string[],
): Promise<InputFile[]> {
  const addresses = addressesIn(input, fields)
  if (addresses.length === 0) return []
  const uploads = await signUploads(services, account_id, addresses)
  return addresses.map(({ field }) => uploads.find((upload) => upload.field === field) ?? { field })
}

/** A field of an input and the URL in it. */
interface Address {
  field: string
  url: string
}

function addressesIn(input: Buffer, fields: readonly string[]): Address[] {
  const value = JSON.parse(input.toString()) as Record<string, unknown>
  return fields.flatMap((field) => {
    const url = value[field]
    return typeof url === 'string' && !url.startsWith('data:') ? [{ field, url }] : []
  })
}

/**
 * Signs fresh URLs for the uploads that the given URLs refer to. Nothing is fetched from the given URLs, so their hosts
 * don't matter.
 */
export async function signUploads(
  { db, objects }: Pick<Services, 'db' | 'objects'>,
  account_id: string,
  addresses: readonly Address[],
): Promise<Address[]> {
  const named = addresses.flatMap(({ field, url }) => {
    const id = uploadNamedBy(url, account_id)
    return id === undefined ? [] : [{ field, id }]
  })
  if (named.length === 0) return []
  const stored = await uploadedInputRepository.findUploadedInputs(
    db,
    account_id,
    named.map(({ id }) => id),
  )
  return Promise.all(
    named.flatMap(({ field, id }) => {
      const key = stored.get(id)
      if (key === undefined) return []
      return [objects.signGet(key, { expiresInS: INPUT_URL_TTL_S }).then(({ url }) => ({ field, url }))]
    }),
  )
}

/** Returns the id of the upload that a URL from `upload-input` refers to. */
function uploadNamedBy(url: string, accountId: string): string | undefined {
  const path = URL.canParse(url) ? decoded(new URL(url).pathname) : undefined
  if (path === undefined) return undefined
  const id = path.split('/').at(-1) ?? ''
  return isUuid(id) && path.endsWith(`/${inputKey(accountId, id)}`) ? id : undefined
}

/** Decodes a path; undefined for an invalid escape, which no upload's path has. */
function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}
