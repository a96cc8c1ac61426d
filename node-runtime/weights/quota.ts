import { mkdir, readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'

const MB = 1024 * 1024
/** The least that a cache may hold by default: the fixed quota of versions up to 0.12. */
const MIN_DEFAULT_MB = 20 * 1024

/**
 * Returns the megabytes that the weights cache in `dir` may hold: `gb` gigabytes, else `mb` megabytes, and else half of what
 * its disk has free, counting what the cache holds already.
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
