import { statfs } from 'node:fs/promises'

/** No space, no quota, and a file system that the kernel has made read-only after errors. */
const DISK_FULL = new Set<unknown>(['ENOSPC', 'EDQUOT', 'EROFS'])

/** Returns whether a write failed because its disk takes no more. */
export const isDiskFull = (err: unknown): boolean =>
  err instanceof Error && 'code' in err && DISK_FULL.has(err.code)

/** The messages of programs and threads, which pass on no codes. */
const DISK_FULL_WORDS = /No space left on device|Disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i

/** Returns whether an error, or one that caused it, says that a disk is full, by its code or in words. */
export function blamesFullDisk(err: unknown): boolean {
  for (let at = err, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (isDiskFull(at) || DISK_FULL_WORDS.test(at.message)) return true
  }
  return false
}

/** An error of this program's own account of the disk, with the code that the kernel would give. */
export class DiskFullError extends Error {
  override readonly name = 'DiskFullError'
  readonly code = 'ENOSPC'
}

/** The room of a disk in bytes. */
export interface DiskRoom {
  freeBytes: number
  totalBytes: number
}

/** Reads the room that processes without privileges have on the disk of a folder. */
export async function readDiskRoom(folder: string): Promise<DiskRoom> {
  const { bavail, blocks, bsize } = await statfs(folder)
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
}
