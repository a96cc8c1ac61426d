import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Payload } from './payload.ts'

const BLOCK_BYTES = 1024 * 1024
/** When this many blocks are queued for the disk, the source has to wait. */
const MAX_WAITING = 3
/** How much space a payload of unknown size reserves at a time. */
const ROOM_STEP = 64 * 1024 * 1024

/** An incremental digest, such as a `node:crypto` hash. */
export interface RunningDigest {
  update(bytes: Uint8Array): unknown
  digest(encoding: 'hex'): string
}

/** The part of the store that a writer uses. */
export interface StoreReservation {
  /** Reserves up to `most` bytes of free space; throws `no_room` if less than `bytes` is free. */
  take(bytes: number, most?: number): Promise<number>
  give(bytes: number): void
  /** Adds the complete file to the store. */
  keep(file: { sizeBytes: number; sha256: string }): Payload
  /** Removes the file of an unfinished payload. */
  discard(): void
}

/**
 * Writes a payload's file and computes its digest on the fly, so it needn't be read again. Bytes are copied into reused
 * blocks, which frees each socket buffer at once. Writing every chunk as it arrives would cost twice the CPU
 * (bench/edges.ts).
 */
export class PayloadWriter implements AsyncDisposable {
  readonly path: string
  readonly #file: FileHandle
  readonly #room: StoreReservation
  readonly #maxBytes: number
  readonly #digest: RunningDigest
  #taken: number
  #bytes = 0
  #written = 0
  #block: Buffer | undefined
  #filled = 0
  readonly #spare: Buffer[] = []
  /** Blocks queued for the disk; the first one is being written. */
  readonly #waiting: Buffer[] = []
  #writing: Promise<void> | undefined
  /** The write in progress. */
  #step: Promise<unknown> | undefined
  #finishing: Promise<Payload> | undefined
  #fault: unknown
  #isOver = false

  constructor(
    { file, path }: { file: FileHandle; path: string },
    {
      room,
      taken,
      maxBytes,
      digest = createHash('sha256'),
    }: { room: StoreReservation; taken: number; maxBytes: number; digest?: RunningDigest | undefined },
  ) {
    this.path = path
    this.#file = file
    this.#room = room
    this.#taken = taken
    this.#maxBytes = maxBytes
    this.#digest = digest
  }

  /** The bytes accepted so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** Reserves room for a payload of this size. */
  async expect(sizeBytes: number): Promise<void> {
    if (sizeBytes > this.#maxBytes) throw tooLarge(this.#maxBytes)
    const more = sizeBytes - this.#taken
    if (more > 0) this.#taken += await this.#room.take(more)
  }

  /** Copies bytes within the reserved room. Returns false if the source must wait for `ready`. */
  push(chunk: Uint8Array): boolean {
    if (this.#fault !== undefined) throw this.#fault
    this.#bytes += chunk.length
    if (this.#bytes > this.#taken)
      throw new EdgeError('size_mismatch', 'the payload has more bytes than announced')
    for (let at = 0; at < chunk.length;) {
      this.#block ??= this.#spare.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES)
      const fits = chunk.subarray(at, at + BLOCK_BYTES - this.#filled)
      this.#block.set(fits, this.#filled)
      this.#filled += fits.length
      at += fits.length
      if (this.#filled === BLOCK_BYTES) this.#passOn()
    }
    return this.#waiting.length < MAX_WAITING
  }

  /** Resolves when the disk has caught up. */
  async ready(): Promise<void> {
    while (this.#waiting.length > 1) await this.#step?.catch(() => {})
    if (this.#fault !== undefined) throw this.#fault
  }

  /** Writes bytes from a source of unknown size, at the disk's pace. */
  async write(bytes: Uint8Array): Promise<void> {
    const needed = this.#bytes + bytes.length
    if (needed > this.#maxBytes) throw tooLarge(this.#maxBytes)
    const more = needed - this.#taken
    if (more > 0) {
      const most = Math.min(this.#maxBytes - this.#taken, Math.max(more, ROOM_STEP))
      this.#taken += await this.#room.take(more, most)
    }
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES)
      if (!this.push(bytes.subarray(at, at + BLOCK_BYTES))) await this.ready()
  }

  /** Resolves when the file contains all accepted bytes. */
  async flush(): Promise<void> {
    this.#passOn()
    await this.#writing
    if (this.#fault !== undefined) throw this.#fault
  }

  /** Completes the payload. Throws and discards it if its digest isn't `sha256`. */
  finish({ sha256 }: { sha256?: string | undefined } = {}): Promise<Payload> {
    return (this.#finishing ??= this.#finish(sha256))
  }

  async #finish(sha256: string | undefined): Promise<Payload> {
    await this.flush()
    const digest = this.#digest.digest('hex')
    if (sha256 !== undefined && digest !== sha256)
      throw new EdgeError('digest_mismatch', 'the payload does not match the announced digest')
    this.#isOver = true
    await this.#file.close()
    this.#room.give(this.#taken - this.#bytes)
    return this.#room.keep({ sizeBytes: this.#bytes, sha256: digest })
  }

  /** Removes the file unless it was completed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#finishing?.catch(() => {})
    if (this.#isOver) return
    this.#isOver = true
    this.#waiting.length = 0
    await this.#writing
    await this.#file.close()
    this.#room.discard()
    this.#room.give(this.#taken)
  }

  #passOn(): void {
    if (!this.#block || this.#filled === 0) return
    const block = this.#block.subarray(0, this.#filled)
    this.#digest.update(block)
    this.#waiting.push(block)
    this.#block = undefined
    this.#filled = 0
    this.#writing ??= this.#flush()
  }

  async #flush(): Promise<void> {
    try {
      for (let [block] = this.#waiting; block; [block] = this.#waiting) {
        const step = this.#file.write(block, 0, block.length, this.#written)
        this.#step = step
        if ((await step).bytesWritten < block.length) throw new EdgeError('no_room', 'the disk is full')
        this.#written += block.length
        this.#waiting.shift()
        // A partial block is a view of a full-sized buffer.
        this.#spare.push(Buffer.from(block.buffer))
      }
    } catch (err) {
      const isFull = (err as NodeJS.ErrnoException).code === 'ENOSPC'
      this.#fault = isFull ? new EdgeError('no_room', 'the disk is full', { cause: err }) : err
      this.#waiting.length = 0
    } finally {
      this.#writing = undefined
    }
  }
}

const tooLarge = (most: number) =>
  new EdgeError('size_mismatch', `the payload is larger than the agreed ${most} bytes`)
