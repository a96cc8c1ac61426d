import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { FRAME, type LogEntry, MAX_CHUNK, type MetricEntry } from '../../schemas/nodes/link.ts'
import { withoutPaths } from '../models/without-paths.ts'

type SpoolKind = typeof FRAME.log | typeof FRAME.metric

interface Entry {
  position: number
  kind: SpoolKind
  text: string
  bytes: number
}

interface Segment {
  path: string
  last: number
}

/**
 * A link that can send a batch to a gateway now. It never throws; the gateway's response triggers `Spool.acknowledge`.
 */
export interface SpoolSink {
  sendBatch(kind: SpoolKind, ackedThrough: number, body: Buffer): void
}

/** The losses after an epoch. The evaluation metrics exist only with an evaluation split. */
export type EpochMeasures = Pick<MetricEntry, 'train_loss' | 'val_loss' | 'eval_loss' | 'eval_perplexity'>

/** Reports the progress of one attempt at a job. */
export interface JobReport {
  log(message: string): void
  metric(epoch: number, losses: EpochMeasures): void
}

/** The maximum length of a log line in characters. */
const MAX_MESSAGE = 8_000
const SEGMENT_BYTES = 1024 * 1024
const BATCH_ENTRIES = 500
const DISK_RETRY_DELAY_MS = 1_000

/**
 * Buffers logs and metrics on disk until a gateway acknowledges them. One batch is in flight at a time, and is resent
 * if its link breaks or the node restarts. Beyond `maxBytes` the oldest log lines are dropped and replaced by one line
 * with their count.
 */
export class Spool {
  readonly #dir: string
  readonly #maxBytes: number
  readonly #segments: Segment[] = []
  readonly #sinks = new Set<SpoolSink>()
  readonly #waiters = new Set<() => void>()
  #entries: Entry[] = []
  #bytes = 0
  #position = 0
  #file: { fd: number; bytes: number } | undefined
  #inFlight: { ackedThrough: number; sink: SpoolSink } | undefined
  #scheduled = false
  /** When to try the disk again after a failure. */
  #diskAt = Number.NEGATIVE_INFINITY

  constructor({ dir, maxBytes = 32 * 1024 * 1024 }: { dir: string; maxBytes?: number }) {
    this.#dir = dir
    this.#maxBytes = maxBytes
    mkdirSync(dir, { recursive: true })
    this.#load()
  }

  /** The number of unacknowledged entries. */
  get pending(): number {
    return this.#entries.length
  }

  log(entry: LogEntry): void {
    this.#append(FRAME.log, JSON.stringify({ ...entry, message: withoutPaths(entry.message) }))
  }

  metric(entry: MetricEntry): void {
    this.#append(FRAME.metric, JSON.stringify(entry))
  }

  /** Returns a reporter for one attempt at a job. The spool numbers its log lines. */
  job(jobId: string, attempt: number): JobReport {
    let seq = 0
    const stamp = () => ({ job_id: jobId, attempt, at: new Date().toISOString() })
    return {
      log: (message) => this.log({ ...stamp(), seq: seq++, message: message.slice(0, MAX_MESSAGE) }),
      metric: (epoch, losses) => this.metric({ ...stamp(), epoch, ...losses }),
    }
  }

  attach(sink: SpoolSink): void {
    this.#sinks.add(sink)
    this.#schedule()
  }

  /** Removes a closed link. The next link resends its batch. */
  detach(sink: SpoolSink): void {
    this.#sinks.delete(sink)
    if (this.#inFlight?.sink === sink) this.#inFlight = undefined
    this.#schedule()
  }

  /** Records that a gateway has stored every entry up to `ackedThrough`. */
  acknowledge(ackedThrough: number): void {
    if (this.#inFlight && this.#inFlight.ackedThrough <= ackedThrough) this.#inFlight = undefined
    let count = 0
    for (const { position, bytes } of this.#entries) {
      if (position > ackedThrough) break
      this.#bytes -= bytes
      count += 1
    }
    this.#entries = this.#entries.slice(count)
    this.#dropSegments(ackedThrough)
    if (this.#entries.length) this.#schedule()
    else for (const waiter of this.#waiters) waiter()
  }

  /** Resolves to true once no entries are pending, or to false after `timeoutMs`. */
  flush({ timeoutMs }: { timeoutMs: number }): Promise<boolean> {
    if (this.#entries.length === 0) return Promise.resolve(true)
    return new Promise((resolve) => {
      const settle = (flushed: boolean) => {
        clearTimeout(timer)
        this.#waiters.delete(done)
        resolve(flushed)
      }
      const done = () => settle(true)
      const timer = setTimeout(() => settle(false), timeoutMs)
      this.#waiters.add(done)
    })
  }

  close(): void {
    this.#sinks.clear()
    this.#closeFile()
  }

  #load(): void {
    for (const name of readdirSync(this.#dir).toSorted()) {
      const path = join(this.#dir, name)
      for (const line of readFileSync(path, 'utf8').split('\n').slice(0, -1)) {
        const kind = line.startsWith('L') ? FRAME.log : FRAME.metric
        this.#remember(kind, line.slice(1))
      }
      this.#segments.push({ path, last: this.#position })
    }
    this.#dropSegments(this.#entries.length ? 0 : this.#position)
  }

  #append(kind: SpoolKind, text: string): void {
    const line = Buffer.from(`${kind === FRAME.log ? 'L' : 'M'}${text}\n`)
    this.#write(line)
    this.#remember(kind, text)
    this.#bound()
    const segment = this.#segments.at(-1)
    if (segment) segment.last = this.#position
    this.#schedule()
  }

  /** Writes a line. A full disk only loses entries if the node crashes; it never stops the node or its jobs. */
  #write(line: Buffer): void {
    if (!this.#file && performance.now() < this.#diskAt) return
    try {
      if (!this.#file || this.#file.bytes + line.length > SEGMENT_BYTES) this.#rotate()
      if (!this.#file) return
      const written = writeSync(this.#file.fd, line)
      this.#file.bytes += written
      // A truncated line must be the last one in its file.
      if (written === line.length) return
    } catch {
      // Retry the disk later.
    }
    this.#diskAt = performance.now() + DISK_RETRY_DELAY_MS
    this.#closeFile()
  }

  #closeFile(): void {
    const file = this.#file
    this.#file = undefined
    if (file) closeSync(file.fd)
  }

  #remember(kind: SpoolKind, text: string): void {
    this.#position += 1
    const bytes = Buffer.byteLength(text)
    this.#bytes += bytes
    this.#entries.push({ position: this.#position, kind, text, bytes })
  }

  #rotate(): void {
    this.#closeFile()
    const path = join(this.#dir, `${Date.now()}-${String(this.#position).padStart(12, '0')}`)
    this.#file = { fd: openSync(path, 'a'), bytes: 0 }
    this.#segments.push({ path, last: this.#position })
  }

  #bound(): void {
    if (this.#bytes <= this.#maxBytes) return
    let over = this.#bytes - this.#maxBytes / 2
    const dropped: Entry[] = []
    const kept = this.#entries.filter((entry) => {
      if (over <= 0 || entry.kind !== FRAME.log) return true
      over -= entry.bytes
      dropped.push(entry)
      return false
    })
    const last = dropped.at(-1)
    if (!last) return
    // The replacement line takes the position and number of the last dropped one.
    const message = `${dropped.length} log lines up to here were dropped because no gateway accepted them`
    const text = JSON.stringify({ ...(JSON.parse(last.text) as LogEntry), message })
    const after = kept.findIndex(({ position }) => position > last.position)
    kept.splice(after === -1 ? kept.length : after, 0, { ...last, text, bytes: Buffer.byteLength(text) })
    this.#entries = kept
    this.#bytes = kept.reduce((sum, { bytes }) => sum + bytes, 0)
    this.#dropSegments((kept[0]?.position ?? this.#position) - 1)
  }

  #dropSegments(ackedThrough: number): void {
    while (this.#segments[0] && this.#segments[0].last <= ackedThrough) {
      const segment = this.#segments.shift()
      if (segment && this.#segments.length === 0) this.#closeFile()
      if (segment) rmSync(segment.path, { force: true })
    }
  }

  /** Waits a moment to batch a burst of lines. */
  #schedule(): void {
    if (this.#scheduled || this.#inFlight || this.#sinks.size === 0 || this.#entries.length === 0) return
    this.#scheduled = true
    setTimeout(() => {
      this.#scheduled = false
      this.#send()
    }, 20)
  }

  #send(): void {
    const [sink] = this.#sinks
    const first = this.#entries[0]
    if (!sink || !first || this.#inFlight) return

    const texts: string[] = []
    let bytes = 0
    let ackedThrough = first.position
    for (const entry of this.#entries) {
      if (entry.kind !== first.kind || texts.length >= BATCH_ENTRIES) break
      if (texts.length && bytes + entry.bytes + 2 > MAX_CHUNK) break
      texts.push(entry.text)
      // Count a comma or bracket per entry.
      bytes += entry.bytes + 1
      ackedThrough = entry.position
    }
    this.#inFlight = { ackedThrough, sink }
    sink.sendBatch(first.kind, ackedThrough, Buffer.from(`[${texts.join(',')}]`))
  }
}
