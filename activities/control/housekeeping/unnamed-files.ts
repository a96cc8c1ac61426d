import type { UnsweptTask } from '../../../db/repositories/tasks/uploads.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'

/** Removes the files in a folder that no result references. */
export async function removeUnnamed(
  objects: Pick<ObjectStore, 'list' | 'delete'>,
  { folder, kept }: Pick<UnsweptTask, 'folder' | 'kept'>,
): Promise<void> {
  for await (const { key } of objects.list(folder)) if (!kept.has(key)) await objects.delete(key)
}
