import { Transform } from 'node:stream'
import { storageFull } from '../../domain/errors.ts'
import { readDiskRoom } from '../disk-room.ts'
import type { StoreRoom } from './store.ts'

/** The bytes of one upload between two looks at the disk. */
const CHECK_BYTES = 8 * 1024 * 1024
/** A small disk keeps a small reserve, or it would take no upload at all. */
const MAX_SHARE = 1 / 20

/**
 * The free space of a disk that uploads leave for the results and checkpoints of admitted work. Several uploads at once
 * may use up to 8 MB each of it.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #bytes: number

  constructor(folder: string, bytes: number) {
    this.#folder = folder
    this.#bytes = bytes
  }

  async room(): Promise<StoreRoom> {
    const room = await readDiskRoom(this.#folder)
    return { ...room, reserveBytes: Math.min(this.#bytes, Math.floor(room.totalBytes * MAX_SHARE)) }
  }

  /** Throws `no_capacity` when an upload of so many bytes would use the reserve. */
  async check(sizeBytes = 0): Promise<void> {
    const { freeBytes, reserveBytes } = await this.room()
    if (freeBytes - sizeBytes < reserveBytes) throw storageFull('object store')
  }

  /** Returns a stream that passes bytes on, and fails once they use the reserve. */
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
