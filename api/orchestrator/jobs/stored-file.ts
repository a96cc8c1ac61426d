import { ApiError } from '../../../domain/errors.ts'
import type { ObjectStore } from '../../../platform/object-store.ts'

/** Refuses a file that was announced but not PUT, or not whole. */
export async function assertStored(
  objects: ObjectStore,
  key: string,
  { filename, size_bytes }: { filename: string; size_bytes: number },
): Promise<void> {
  const stored = await objects.head(key)
  if (!stored) throw new ApiError('conflict', `${filename} has not been stored`)
  if (stored.sizeBytes !== size_bytes) {
    throw new ApiError(
      'conflict',
      `${filename} has ${stored.sizeBytes} bytes, not the ${size_bytes} announced`,
    )
  }
}
