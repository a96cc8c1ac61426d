import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, mkdir, open, rename, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import { PayloadWriter, type StoreReservation, type RunningDigest } from './payload-writer.ts'
import type { EdgeAttempt, Payload } from './payload.ts'

const MB = 1024 * 1024
/** The size limit if none is configured. */
const MAX_BYTES = 10 * 1024 * MB
/** The space that payloads leave free for everything else on the disk. */
const HEADROOM_BYTES = 256 * MB
const READ_BYTES = MB
const MAX_HOLD_TTL_MS = 24 * 3_600_000

interface PayloadHold {
  payload: Payload
  attempt: number
  /** The stage at the other end has consumed the payload, so it is evicted first. */
  isConsumed: boolean
  timer: NodeJS.Timeout
}

/** Stores payloads on this node's disk: outgoing ones until their consumers have succeeded, and incoming ones. */
export class PayloadStore implements AsyncDisposable {
  readonly limitBytes: number
  readonly #dir: string
  /** Payloads in order of completion, with the edges that hold them. */
  readonly #payloads = new Map<Payload, Set<string>>()
  /** Payloads that their creators have not disposed of yet. */
  readonly #inHand = new Set<Payload>()
  readonly #holds = new Map<string, PayloadHold>()
  readonly #removals = new Set<Promise<void>>()
  /** Callers waiting for a payload to be held, or for space. */
  readonly #waiters = new Set<() => void>()
  #usedBytes = 0

  /**
   * Opens an empty store and removes files left by an earlier process. If the limit is 0, derives it from the free disk
   * space.
   */
  static async open({ dir, limitMb }: { dir: string; limitMb: number }): Promise<PayloadStore> {
    await rm(dir, { recursive: true, force: true })
    await mkdir(dir, { recursive: true, mode: 0o700 })
    if (limitMb > 0) return new PayloadStore(dir, limitMb * MB)
    const { bavail, bsize } = await statfs(dir)
    return new PayloadStore(dir, Math.min(MAX_BYTES, Math.floor((bavail * bsize) / 4)))
  }

  private constructor(dir: string, limitBytes: number) {
    this.#dir = dir
    this.limitBytes = limitBytes
  }

  /** The bytes of all payloads, including unfinished ones. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  /** Starts a payload. Throws `no_room`; the writer throws `size_mismatch` if there are more bytes than agreed. */
  async write({
    sizeBytes = 0,
    maxBytes = this.limitBytes,
    digest,
  }: { sizeBytes?: number; maxBytes?: number; digest?: RunningDigest } = {}): Promise<PayloadWriter> {
    await this.#take(sizeBytes)
    const path = this.#newPath()
    const room: StoreReservation = {
      take: (bytes, most) => this.#take(bytes, most),
      give: (bytes) => this.#give(bytes),
      keep: (file) => this.#keep(path, file),
      discard: () => this.#remove(path),
    }
    try {
      const file = await open(path, 'wx', 0o600)
      return new PayloadWriter({ file, path }, { room, taken: sizeBytes, maxBytes, digest })
    } catch (err) {
      this.#give(sizeBytes)
      throw err
    }
  }

  /**
   * Moves a model server's file, which must be on the same disk, into the store, and reads it once to compute its
   * digest.
   */
  async adopt(path: string, { maxBytes = this.limitBytes }: { maxBytes?: number } = {}): Promise<Payload> {
    await using file = await openForeign(path)
    const { size } = await file.stat()
    if (size > maxBytes) throw new EdgeError('size_mismatch', `the payload is larger than ${maxBytes} bytes`)
    await this.#take(size)
    const own = this.#newPath()
    try {
      await rename(path, own)
      return this.#keep(own, { sizeBytes: size, sha256: await digestOf(file, size) })
    } catch (err) {
      this.#remove(own)
      this.#give(size)
      throw err
    }
  }

  /** Holds a payload for an edge. Replaces the hold of an earlier attempt. */
  hold(payload: Payload, { edgeId, attempt }: EdgeAttempt, holdMs: number): void {
    const edges = this.#payloads.get(payload)
    if (!edges) throw new EdgeError('payload_gone', 'the payload is no longer on this node')
    const before = this.#holds.get(edgeId)
    if (before && before.attempt > attempt)
      throw new EdgeError('refused', `attempt ${before.attempt} of this edge has begun`)
    clearTimeout(before?.timer)
    this.#holds.set(edgeId, { payload, attempt, isConsumed: false, timer: this.#expiry(edgeId, holdMs) })
    edges.add(edgeId)
    if (before && before.payload !== payload) this.#letGo(before.payload, edgeId)
    this.#wake()
  }

  /** Extends a hold; returns false if the payload is gone. */
  renew({ edgeId, attempt }: EdgeAttempt, holdMs: number): boolean {
    const hold = this.#current(edgeId, attempt)
    if (!hold) return false
    clearTimeout(hold.timer)
    hold.timer = this.#expiry(edgeId, holdMs)
    return true
  }

  /** Records that the consumer has consumed the payload, which may be evicted from then on. */
  consumed({ edgeId, attempt }: EdgeAttempt): void {
    const hold = this.#current(edgeId, attempt)
    if (hold) hold.isConsumed = true
    this.#wake()
  }

  /** Returns whether a payload is still stored. */
  holds(payload: Payload): boolean {
    return this.#payloads.has(payload)
  }

  find({ edgeId, attempt }: EdgeAttempt): Payload | undefined {
    return this.#current(edgeId, attempt)?.payload
  }

  /** Resolves once a payload is held for this attempt. */
  async whenHeld(at: EdgeAttempt, signal: AbortSignal): Promise<Payload> {
    for (;;) {
      const payload = this.find(at)
      if (payload) return payload
      await this.#changed(signal)
    }
  }

  /** Returns whether a payload of this size fits now. Throws `size_mismatch` if it never can. */
  async hasRoom(bytes: number): Promise<boolean> {
    if (bytes > this.limitBytes) {
      const message = `a payload of ${bytes} bytes exceeds this node's limit of ${this.limitBytes} bytes for all payloads`
      throw new EdgeError('size_mismatch', message)
    }
    const evictable = this.#evictable()
    if (this.#usedBytes - evictable + bytes > this.limitBytes) return false
    const { bavail, bsize } = await statfs(this.#dir)
    return bavail * bsize + evictable >= bytes + HEADROOM_BYTES
  }

  /** Resolves once a payload of this size fits. Space that other programs free up on the disk goes unnoticed. */
  async whenRoom(bytes: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      // Subscribe first, so a change during the disk check isn't missed.
      const waiting = new AbortController()
      const changed = this.#changed(AbortSignal.any([signal, waiting.signal]))
      changed.catch(() => {})
      if (await this.hasRoom(bytes)) return waiting.abort()
      await changed
    }
  }

  /** Hard-links the payload for a consumer on this node, which avoids a copy. */
  async linkTo(at: EdgeAttempt, path: string): Promise<void> {
    const payload = this.find(at)
    if (!payload) throw new EdgeError('payload_gone', 'the payload is no longer on this node')
    await link(payload.path, path)
  }

  /** Releases the hold of this attempt or an earlier one, but not a later attempt's hold. */
  release({ edgeId, attempt }: EdgeAttempt): void {
    const hold = this.#holds.get(edgeId)
    if (hold && hold.attempt <= attempt) this.#drop(edgeId)
  }

  /** Removes every payload. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const edgeId of this.#holds.keys()) this.#drop(edgeId)
    for (const payload of this.#inHand) payload[Symbol.dispose]()
    await Promise.all(this.#removals)
    await rm(this.#dir, { recursive: true, force: true })
  }

  #newPath(): string {
    return join(this.#dir, `${randomUUID()}.payload`)
  }

  #current(edgeId: string, attempt: number): PayloadHold | undefined {
    const hold = this.#holds.get(edgeId)
    return hold?.attempt === attempt ? hold : undefined
  }

  #expiry(edgeId: string, holdMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#drop(edgeId), Math.min(holdMs, MAX_HOLD_TTL_MS)).unref()
  }

  #keep(path: string, file: { sizeBytes: number; sha256: string }): Payload {
    const payload: Payload = {
      path,
      ...file,
      [Symbol.dispose]: () => {
        this.#inHand.delete(payload)
        this.#removeUnheld(payload)
      },
    }
    this.#payloads.set(payload, new Set())
    this.#inHand.add(payload)
    return payload
  }

  #drop(edgeId: string): void {
    const hold = this.#holds.get(edgeId)
    if (!hold) return
    clearTimeout(hold.timer)
    this.#holds.delete(edgeId)
    this.#letGo(hold.payload, edgeId)
  }

  #letGo(payload: Payload, edgeId: string): void {
    this.#payloads.get(payload)?.delete(edgeId)
    this.#removeUnheld(payload)
  }

  #removeUnheld(payload: Payload): void {
    const edges = this.#payloads.get(payload)
    if (!edges || edges.size > 0 || this.#inHand.has(payload)) return
    this.#payloads.delete(payload)
    this.#remove(payload.path)
    this.#give(payload.sizeBytes)
  }

  /** Removes a file without blocking the event loop: removing a large one takes a while. */
  #remove(path: string): void {
    const removal = rm(path, { force: true })
      .catch(() => {})
      .finally(() => this.#removals.delete(removal))
    this.#removals.add(removal)
  }

  async #take(bytes: number, most = bytes): Promise<number> {
    for (const [payload, edges] of this.#payloads) {
      if (this.#usedBytes + bytes <= this.limitBytes) break
      if (this.#isEvictable(payload)) for (const edgeId of edges) this.#drop(edgeId)
    }
    const taken = Math.min(most, this.limitBytes - this.#usedBytes)
    if (taken < bytes) throw this.#noRoom(bytes)
    this.#usedBytes += taken
    try {
      await Promise.all(this.#removals)
      const { bavail, bsize } = await statfs(this.#dir)
      if (bavail * bsize < bytes + HEADROOM_BYTES) throw this.#noRoom(bytes)
      return taken
    } catch (err) {
      this.#give(taken)
      throw err
    }
  }

  #give(bytes: number): void {
    this.#usedBytes -= bytes
    this.#wake()
  }

  #evictable(): number {
    return [...this.#payloads.keys()].reduce(
      (sum, payload) => sum + (this.#isEvictable(payload) ? payload.sizeBytes : 0),
      0,
    )
  }

  #isEvictable(payload: Payload): boolean {
    if (this.#inHand.has(payload)) return false
    const edges = this.#payloads.get(payload)
    return edges !== undefined && [...edges].every((edgeId) => this.#holds.get(edgeId)?.isConsumed)
  }

  #noRoom(bytes: number): EdgeError {
    return new EdgeError('no_room', `this node has no room for a payload of ${bytes} bytes`)
  }

  async #changed(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiters.add(resolve)
    try {
      await unlessAborted(promise, signal)
    } finally {
      this.#waiters.delete(resolve)
    }
  }

  #wake(): void {
    for (const wake of this.#waiters) wake()
  }
}

/**
 * Opens a file that a model server left. The server runs untrusted weights: a symlink instead of the file could point
 * to any file on the node, and a pipe would block one of the node's threads forever.
 */
export async function openForeign(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new EdgeError('refused', 'the model server left something other than a regular file as its payload')
}

async function digestOf(file: FileHandle, size: number): Promise<string> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafeSlow(Math.max(1, Math.min(READ_BYTES, size)))
  for (let at = 0; at < size;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at)
    if (bytesRead === 0) throw new EdgeError('size_mismatch', 'the file was truncated while it was read')
    hash.update(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
  return hash.digest('hex')
}
