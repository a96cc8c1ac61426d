import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Payload } from './payload.ts'

/** Bytes are written in batches of at least this size: writing each piece of a socket as it comes takes twice the CPU. */
const BATCH_BYTES = 1024 * 1024
/** When more bytes wait for the disk, their source is asked to wait. */
const HIGH_WATER = 3 * BATCH_BYTES
/** The room that a payload of unknown size takes in advance. */
const ROOM_STEP = 64 * 1024 * 1024

/** A digest over bytes as they come; `node:crypto` makes such ones. */
export interface RunningDigest {
  update(bytes: Uint8Array): unknown
  digest(encoding: 'hex'): string
}

/** What a writer needs of the store whose payload it writes. */
export interface Room {
  /** Takes room, as much as there is up to `most`; throws `no_room` for less than `bytes`. */
  take(bytes: number, most?: number): Promise<number>
  give(bytes: number): void
  /** Takes over the complete file. */
  keep(file: { sizeBytes: number; sha256: string }): Payload
  /** Removes the file of a payload that was not completed. */
  discard(): void
}

/** Writes the file of a payload, whose digest is computed while bytes come, so that nobody reads them again. */
export class PayloadWriter implements AsyncDisposable {
  readonly #file: FileHandle
  readonly #room: Room
  readonly #maxBytes: number
  readonly #digest: RunningDigest
  #taken: number
  #bytes = 0
  #written = 0
  #queue: Uint8Array[] = []
  #queuedBytes = 0
  #writing: Promise<void> | undefined
  #finishing: Promise<Payload> | undefined
  #fault: unknown
  #isOver = false

  constructor(
    file: FileHandle,
    {
      room,
      taken,
      maxBytes,
      digest = createHash('sha256'),
    }: { room: Room; taken: number; maxBytes: number; digest?: RunningDigest | undefined },
  ) {
    this.#file = file
    this.#room = room
    this.#taken = taken
    this.#maxBytes = maxBytes
    this.#digest = digest
  }

  /** The bytes taken so far; all of them are in the digest. */
  get bytes(): number {
    return this.#bytes
  }

  /** Takes room for a payload of this size. */
  async expect(sizeBytes: number): Promise<void> {
    if (sizeBytes > this.#maxBytes) throw tooLarge(this.#maxBytes)
    const more = sizeBytes - this.#taken
    if (more > 0) this.#taken += await this.#room.take(more)
  }

  /** Takes bytes that there is room for; false means that their source must wait until `ready`. */
  push(chunk: Uint8Array): boolean {
    if (this.#fault !== undefined) throw this.#fault
    this.#bytes += chunk.length
    if (this.#bytes > this.#taken) throw new EdgeError('size_mismatch', 'more bytes come than were announced')
    this.#digest.update(chunk)
    this.#queue.push(chunk)
    this.#queuedBytes += chunk.length
    if (this.#queuedBytes >= BATCH_BYTES) this.#writing ??= this.#flush()
    return this.#bytes - this.#written < HIGH_WATER
  }

  /** Resolves when the disk can take more. */
  async ready(): Promise<void> {
    await this.#writing
    if (this.#fault !== undefined) throw this.#fault
  }

  /** Takes bytes of a source whose size is unknown, at the pace of the disk. */
  async write(chunk: Uint8Array): Promise<void> {
    const needed = this.#bytes + chunk.length
    if (needed > this.#maxBytes) throw tooLarge(this.#maxBytes)
    const more = needed - this.#taken
    if (more > 0) {
      const most = Math.min(this.#maxBytes - this.#taken, Math.max(more, ROOM_STEP))
      this.#taken += await this.#room.take(more, most)
    }
    if (!this.push(chunk)) await this.ready()
  }

  /** Completes the payload. Bytes of another digest than `sha256` are not kept. */
  finish({ sha256 }: { sha256?: string | undefined } = {}): Promise<Payload> {
    return (this.#finishing ??= this.#finish(sha256))
  }

  async #finish(sha256: string | undefined): Promise<Payload> {
    await this.ready()
    this.#writing = this.#flush(1)
    await this.ready()
    const digest = this.#digest.digest('hex')
    if (sha256 !== undefined && digest !== sha256)
      throw new EdgeError('digest_mismatch', 'the bytes do not have the announced digest')
    this.#isOver = true
    await this.#file.close()
    this.#room.give(this.#taken - this.#bytes)
    return this.#room.keep({ sizeBytes: this.#bytes, sha256: digest })
  }

  /** Removes what was written, unless it has become a payload. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#finishing?.catch(() => {})
    if (this.#isOver) return
    this.#isOver = true
    this.#forget()
    await this.#writing
    await this.#file.close()
    this.#room.discard()
    this.#room.give(this.#taken)
  }

  async #flush(atLeast = BATCH_BYTES): Promise<void> {
    try {
      while (this.#queuedBytes >= atLeast) {
        const [batch, size] = [this.#queue, this.#queuedBytes]
        this.#forget()
        const { bytesWritten } = await this.#file.writev(batch, this.#written)
        if (bytesWritten < size) throw new EdgeError('no_room', 'the disk is full')
        this.#written += size
      }
    } catch (err) {
      const isFull = (err as NodeJS.ErrnoException).code === 'ENOSPC'
      this.#fault = isFull ? new EdgeError('no_room', 'the disk is full', { cause: err }) : err
      this.#forget()
    } finally {
      this.#writing = undefined
    }
  }

  #forget(): void {
    this.#queue = []
    this.#queuedBytes = 0
  }
}

const tooLarge = (most: number) =>
  new EdgeError('size_mismatch', `the payload is larger than the agreed ${most} bytes`)
