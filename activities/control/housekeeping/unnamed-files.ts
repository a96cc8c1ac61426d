import type { UnsweptTask } from '../../../db/repositories/tasks/uploads.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'

/** Removes the files of a folder that no result names. */
export async function removeUnnamed(
  objects: Pick<ObjectStore, 'list' | 'delete'>,
  { folder, kept }: Pick<UnsweptTask, 'folder' | 'kept'>,
): Promise<void> {
  for await (const { key } of objects.list(folder)) if (!kept.has(key)) await objects.delete(key)
}
