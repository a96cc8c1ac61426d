import { link, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CheckpointRegistered, UploadUrls } from '../../schemas/nodes/lease.ts'
import type { ControlClient } from '../control/client.ts'
import { fullResourceOf, type CapacityWait } from '../control/retry-until-capacity.ts'
import { putFile } from '../weights/transfer.ts'
import type { TrainerFile } from './trainer-lines.ts'

export type Checkpoint = TrainerFile & { epoch: number }

const CONTENT_TYPE = 'application/octet-stream'

/** The pause before an upload is retried while the object store is full. */
const ROOM_RETRY_DELAY_MS = 5_000

/**
 * Uploads checkpoints while training continues: one at a time, and only the newest of those waiting. If the object
 * store is full, retries until it accepts the newest checkpoint.
 */
export class CheckpointUploader {
  readonly #control: ControlClient
  readonly #token: string
  readonly #signal: AbortSignal
  readonly #room: CapacityWait
  readonly #patience = new AbortController()
  readonly #onPreempt: () => void
  readonly #onPause: () => void
  readonly #onFault: (message: string) => void
  #waiting: Checkpoint | undefined
  #running: Promise<void> | undefined

  constructor(options: {
    control: ControlClient
    token: string
    signal: AbortSignal
    room: CapacityWait
    /** Called when a run with a higher priority is waiting for this slot. */
    onPreempt: () => void
    /** Called when the run is paused. */
    onPause: () => void
    /** Called when a checkpoint could not be stored; training continues. */
    onFault: (message: string) => void
  }) {
    this.#control = options.control
    this.#token = options.token
    this.#signal = options.signal
    this.#room = options.room
    this.#onPreempt = options.onPreempt
    this.#onPause = options.onPause
    this.#onFault = options.onFault
  }

  offer(checkpoint: Checkpoint): void {
    this.#waiting = checkpoint
    this.#running ??= this.#work().finally(() => (this.#running = undefined))
  }

  /** Settles when every checkpoint offered so far is stored or has failed. */
  async settled(): Promise<void> {
    while (this.#running) await this.#running
  }

  /** Ends a wait for space, and prevents later ones. */
  stopWaiting(): void {
    this.#patience.abort()
  }

  async #work(): Promise<void> {
    let isWaiting = false
    for (let next = this.#take(); next; next = this.#take()) {
      try {
        await this.#store(next)
        if (isWaiting) this.#room.onWait(null)
        isWaiting = false
      } catch (err) {
        if (this.#signal.aborted) return
        const kind = fullResourceOf(err)
        if (kind === undefined || this.#patience.signal.aborted) {
          this.#onFault(`The checkpoint ${basename(next.path)} was not stored: ${reasonOf(err)}`)
          continue
        }
        if (!isWaiting) this.#room.onWait(kind)
        isWaiting = true
        await this.#pause()
        this.#waiting ??= next
      }
    }
    if (isWaiting) this.#room.onWait(null)
  }

  #pause(): Promise<void> {
    const signal = AbortSignal.any([this.#signal, this.#patience.signal])
    return sleep(ROOM_RETRY_DELAY_MS, undefined, { signal }).catch(() => {})
  }

  #take(): Checkpoint | undefined {
    const next = this.#waiting
    this.#waiting = undefined
    return next
  }

  async #store({ path, epoch, size_bytes, sha256 }: Checkpoint): Promise<void> {
    const filename = basename(path)
    // The trainer deletes all but its newest files; this link preserves the file until it is stored.
    const held = `${path}.upload`
    await link(path, held)
    try {
      const options = { signal: this.#signal }
      const file = { kind: 'checkpoint', filename, size_bytes, sha256, content_type: CONTENT_TYPE }
      const { files } = await this.#control.lease<UploadUrls>('urls', this.#token, { files: [file] }, options)
      for (const { url, content_type, headers = { 'content-type': content_type } } of files) {
        await putFile(url, held, { headers, signal: this.#signal })
      }
      const { preempt, pause } = await this.#control.lease<CheckpointRegistered>(
        'checkpoint',
        this.#token,
        { filename, epoch, size_bytes, sha256 },
        options,
      )
      if (pause) this.#onPause()
      else if (preempt) this.#onPreempt()
    } finally {
      await rm(held, { force: true })
    }
  }
}

const reasonOf = (err: unknown): string => (err instanceof Error ? err.message : String(err))
