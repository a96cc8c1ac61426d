import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { LeaseFile } from '../../../../domain/object-keys.ts'
import type { ObjectInfo, ObjectStore } from '../../../../platform/object-store/store.ts'

/** A file that a node claims to have PUT. */
interface ReportedFile {
  filename: string
  size_bytes: number
  sha256: string
}

/**
 * Returns the key of a file that was PUT, after comparing it with the object store. Throws for a file that is missing,
 * incomplete or different from the announced bytes. The object under this key never changes.
 */
export async function assertStored(
  objects: ObjectStore,
  keyOf: (file: Omit<LeaseFile, 'kind'>) => string,
  { filename, size_bytes, sha256 }: ReportedFile,
): Promise<string> {
  const reported = { filename, size_bytes, sha256 }
  const key = keyOf({ filename, sha256 })
  const stored = await objects.head(key)
  if (stored) {
    assertReported(stored, reported)
    return key
  }
  // A node that announced no digest can write to this key until its URL expires, so move the file before checking it.
  const open = keyOf({ filename })
  if (!(await objects.head(open))) throw new ApiError('conflict', `${filename} has not been stored`)
  const checkingKey = keyOf({ filename: `checking=${newId()}` })
  await objects.move(open, checkingKey)
  assertReported(await objects.head(checkingKey), reported)
  await objects.move(checkingKey, key)
  return key
}

function assertReported(
  stored: ObjectInfo | undefined,
  { filename, size_bytes, sha256 }: ReportedFile,
): void {
  if (!stored) throw new ApiError('conflict', `${filename} has not been stored`)
  if (stored.sizeBytes !== size_bytes) {
    throw new ApiError(
      'conflict',
      `${filename} has ${stored.sizeBytes} bytes, not the ${size_bytes} announced`,
    )
  }
  if (stored.sha256 !== sha256) {
    const found = stored.sha256 ? `the SHA-256 ${stored.sha256}` : 'no SHA-256 in the object store'
    throw new ApiError('conflict', `${filename} has ${found}, not the announced ${sha256}`)
  }
}
