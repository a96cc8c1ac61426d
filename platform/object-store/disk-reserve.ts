import { Transform } from 'node:stream'
import { storageFull } from '../../domain/errors.ts'
import { readDiskSpace } from '../disk-space.ts'
import type { StoreSpace } from './store.ts'

/** The number of bytes that an upload writes between two checks of the disk. */
const CHECK_BYTES = 8 * 1024 * 1024
/** Limits the reserve to a share of the disk; otherwise a small disk could accept no upload at all. */
const MAX_SHARE = 1 / 20

/**
 * The free disk space that uploads must leave for the results and checkpoints of admitted work. Each concurrent upload
 * may use up to 8 MB of it.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #bytes: number

  constructor(folder: string, bytes: number) {
    this.#folder = folder
    this.#bytes = bytes
  }

  async room(): Promise<StoreSpace> {
    const room = await readDiskSpace(this.#folder)
    return { ...room, reserveBytes: Math.min(this.#bytes, Math.floor(room.totalBytes * MAX_SHARE)) }
  }

  /** Throws `no_capacity` when an upload of `sizeBytes` would use the reserve. */
  async check(sizeBytes = 0): Promise<void> {
    const { freeBytes, reserveBytes } = await this.room()
    if (freeBytes - sizeBytes < reserveBytes) throw storageFull('object store')
  }

  /** Returns a stream that passes bytes through and fails once they use the reserve. */
  guard(): Transform {
    let unchecked = 0
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        unchecked += chunk.length
        if (unchecked < CHECK_BYTES) return done(null, chunk)
        unchecked = 0
        this.check().then(() => done(null, chunk), done)
      },
    })
  }
}
