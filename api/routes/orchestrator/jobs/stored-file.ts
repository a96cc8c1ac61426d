import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { LeaseFile } from '../../../../domain/object-keys.ts'
import type { ObjectInfo, ObjectStore } from '../../../../platform/object-store/store.ts'

/** A file that a node claims to have PUT. */
interface ToldFile {
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
  placeOf: (file: Omit<LeaseFile, 'kind'>) => string,
  { filename, size_bytes, sha256 }: ToldFile,
): Promise<string> {
  const told = { filename, size_bytes, sha256 }
  const key = placeOf({ filename, sha256 })
  const stored = await objects.head(key)
  if (stored) {
    assertTold(stored, told)
    return key
  }
  // A node that announced no digest can write to this key until its URL expires, so move the file before checking it.
  const open = placeOf({ filename })
  if (!(await objects.head(open))) throw new ApiError('conflict', `${filename} has not been stored`)
  const apart = placeOf({ filename: `checking=${newId()}` })
  await objects.move(open, apart)
  assertTold(await objects.head(apart), told)
  await objects.move(apart, key)
  return key
}

function assertTold(stored: ObjectInfo | undefined, { filename, size_bytes, sha256 }: ToldFile): void {
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
