import { statfs } from 'node:fs/promises'

/** No space, no quota, and a file system that the kernel has made read-only after errors. */
const DISK_FULL = new Set<unknown>(['ENOSPC', 'EDQUOT', 'EROFS'])

/** Returns whether a write failed because its disk takes no more. */
export const isDiskFull = (err: unknown): boolean =>
  err instanceof Error && 'code' in err && DISK_FULL.has(err.code)

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
