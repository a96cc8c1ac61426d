import * as taskUploadRepository from '../../db/repositories/tasks/uploads.ts'
import type { TaskOutputFile } from '../../db/tables/inference.ts'
import { leaseFileKey, taskFolder } from '../../domain/object-keys.ts'
import type { OutputFile } from '../../platform/model-output.ts'
import type { Services } from '../services.ts'

/** The time after which files are swept that no task names, because their gateway died in between. */
const UNNAMED_MS = 3_600_000
/** Tasks that a workflow runs count their attempts from 1. */
const ATTEMPT = 0

/** Stores files that a model made for a task whose row is yet to be written. */
export async function storeOutputs(
  { db, objects, now }: Pick<Services, 'db' | 'objects' | 'now'>,
  task: { accountId: string; taskId: string },
  files: readonly (OutputFile & { data: Buffer })[],
): Promise<TaskOutputFile[]> {
  const until = new Date(now().getTime() + UNNAMED_MS)
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
