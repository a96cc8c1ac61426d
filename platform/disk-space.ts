import { statfs } from 'node:fs/promises'

/** Out of space, over quota, or a file system that the kernel has made read-only after errors. */
const DISK_FULL = new Set<unknown>(['ENOSPC', 'EDQUOT', 'EROFS'])

/** Returns whether a write failed because the disk accepts no more data. */
export const isDiskFull = (err: unknown): boolean =>
  err instanceof Error && 'code' in err && DISK_FULL.has(err.code)

/** Messages from programs and threads, whose errors carry no code. */
const DISK_FULL_WORDS = /No space left on device|Disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i

/** Returns whether an error, or one of its causes, reports a full disk by its code or message. */
export function blamesFullDisk(err: unknown): boolean {
  for (let at = err, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (isDiskFull(at) || DISK_FULL_WORDS.test(at.message)) return true
  }
  return false
}

/** Thrown when our own disk accounting finds the disk full, with the code that the kernel would return. */
export class DiskFullError extends Error {
  override readonly name = 'DiskFullError'
  readonly code = 'ENOSPC'
}

/** The size and free space of a disk in bytes. */
export interface DiskSpace {
  freeBytes: number
  totalBytes: number
}

/** Returns the space that is available to unprivileged processes on a folder's disk. */
export async function readDiskSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(folder)
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
}
