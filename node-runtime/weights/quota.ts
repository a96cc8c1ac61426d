import { mkdir, readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'

const MB = 1024 * 1024
/** The minimum default quota: the fixed quota of versions up to 0.12. */
const MIN_DEFAULT_MB = 20 * 1024

/**
 * Returns the quota of the weights cache in `dir` in megabytes: `gb` gigabytes, else `mb` megabytes, else half of the
 * disk's free space, counting the cache's own files as free.
 */
export async function cacheQuotaMb({
  dir,
  gb,
  mb,
}: {
  dir: string
  gb: number
  mb: number
}): Promise<number> {
  if (gb > 0) return gb * 1024
  if (mb > 0) return mb
  await mkdir(dir, { recursive: true })
  const { bavail, bsize } = await statfs(dir)
  const half = (bavail * bsize + (await bytesIn(join(dir, 'blobs')))) / 2
  return Math.max(MIN_DEFAULT_MB, Math.floor(half / MB))
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
}
