import * as taskUploadRepository from '../../db/repositories/tasks/uploads.ts'
import type { TaskOutputFile } from '../../db/tables/inference.ts'
import { leaseFileKey, taskFolder } from '../../domain/object-keys.ts'
import type { OutputFile } from '../../platform/model-output.ts'
import type { Services } from '../services.ts'

/** Files that no task refers to after this time are swept: their gateway died before it wrote the task. */
const UNREFERENCED_TTL_MS = 3_600_000
/** Tasks that a workflow runs number their attempts from 1. */
const ATTEMPT = 0

/** Stores the files that a model produced for a task whose row isn't written yet. */
export async function storeOutputs(
  { db, objects, now }: Pick<Services, 'db' | 'objects' | 'now'>,
  task: { accountId: string; taskId: string },
  files: readonly (OutputFile & { data: Buffer })[],
): Promise<TaskOutputFile[]> {
  const until = new Date(now().getTime() + UNREFERENCED_TTL_MS)
  await taskUploadRepository.noteTaskUpload(db, { ...task, until })
  return Promise.all(
    files.map(async ({ data, ...file }) => {
      const { filename, content_type: contentType } = file
      const object_key = `${taskFolder(task)}${leaseFileKey(ATTEMPT, { kind: 'output', filename })}`
      await objects.put(object_key, data, { contentType })
      return { ...file, object_key }
    }),
  )
}
