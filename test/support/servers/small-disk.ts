import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const CHUNK_BYTES = 16 * 1024 * 1024

/** A real disk with a few megabytes. */
export interface SmallDisk extends Disposable {
  readonly path: string
  /** Writes a file that leaves this many bytes free. */
  fill(leaveBytes?: number): void
  /** Removes that file. */
  empty(): void
}

/** Mounts a tmpfs; `missing` is the reason if this machine can't. */
export function mountSmallDisk(megabytes: number): SmallDisk | { missing: string } {
  const path = mkdtempSync(join(tmpdir(), 'hearth-disk-'))
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path])
  if (status !== 0) {
    rmSync(path, { recursive: true })
    return { missing: `a tmpfs cannot be mounted here: ${String(stderr).trim()}` }
  }
  const filler = join(path, 'filler')
  const free = () => {
    const { bavail, bsize } = statfsSync(path)
    return bavail * bsize
  }
  return {
    path,
    fill(leaveBytes = 0) {
      rmSync(filler, { force: true })
      try {
        for (let excessBytes = free() - leaveBytes; excessBytes > 0; excessBytes = free() - leaveBytes)
          appendFileSync(filler, Buffer.alloc(Math.min(excessBytes, CHUNK_BYTES)))
      } catch (err) {
        // Another writer used the remaining space.
        if ((err as NodeJS.ErrnoException).code !== 'ENOSPC') throw err
      }
    },
    empty: () => rmSync(filler, { force: true }),
    [Symbol.dispose]() {
      execFileSync('umount', ['--lazy', path])
      rmSync(path, { recursive: true, force: true })
    },
  }
}
