import { link, mkdir, readdir, readFile, rename, rm, stat, statfs, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import type { NodeModelSpec } from '../schemas/node.ts'
import { downloadFile } from './transfer.ts'

/** How far a download is, as told to whoever waits for the model. */
export interface DownloadProgress {
  bytes_downloaded: number
  bytes_total: number
  download_speed_mbps: number
  eta_seconds: number | null
  /** Seconds for which the download waits because the other side limits its rate. */
  rate_limited_s?: number
}

export interface FetchOptions {
  signal?: AbortSignal
  onProgress: (progress: DownloadProgress) => void
}

/** A model that is whole on this disk. */
export interface CachedModel {
  spec: NodeModelSpec
  directory: string
}

const HEADROOM_BYTES = 512 * 1024 * 1024
const SPEC_FILE = 'model.json'
/** Keys that begin so are bases of training runs: kept like models, but nothing that can be served. */
export const BASE_PREFIX = 'base/'

/**
 * Weights on this node's disk. Blobs are named by their digest, so models share what they have in common; a model is
 * a directory of links to them, in place only once it is whole. Bounded: the longest unused models go first.
 */
export class WeightsCache {
  readonly #dir: string
  readonly #quotaBytes: number
  /** Downloads under way, by digest: models that share a blob fetch it once. */
  readonly #fetching = new Map<string, Promise<void>>()
  /** What is being fetched: its blobs are nobody's yet, but will be. */
  readonly #coming = new Set<NodeModelSpec>()

  constructor({ dir, quotaMb }: { dir: string; quotaMb: number }) {
    this.#dir = dir
    this.#quotaBytes = quotaMb * 1024 * 1024
  }

  /** Keys of the models that are here. */
  async list(): Promise<string[]> {
    return (await this.#keys()).filter((key) => !key.startsWith(BASE_PREFIX))
  }

  async #keys(): Promise<string[]> {
    const names = await readdir(join(this.#dir, 'models')).catch(() => [])
    return names.filter((name) => !name.endsWith('.part')).map(decodeURIComponent)
  }

  async find(modelKey: string): Promise<CachedModel | undefined> {
    const directory = this.#modelDir(modelKey)
    try {
      const spec = JSON.parse(await readFile(join(directory, SPEC_FILE), 'utf8')) as NodeModelSpec
      return { spec, directory: join(directory, 'files') }
    } catch {
      return undefined
    }
  }

  /** Notes that a model was used, for the order in which models leave the disk. */
  async touch(modelKey: string): Promise<void> {
    const now = new Date()
    await utimes(this.#modelDir(modelKey), now, now).catch(() => {})
  }

  /** Fetches what is missing, going on where an earlier try stopped. `keep` names models that may not leave the disk. */
  async fetch(spec: NodeModelSpec, keep: ReadonlySet<string>, options: FetchOptions): Promise<CachedModel> {
    const total = spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    await this.#makeRoom(total, new Set([...keep, spec.model_key]))
    const meter = new Meter(total, options.onProgress)
    this.#coming.add(spec)
    try {
      for (const file of spec.files) await this.#fetchBlob(file, meter, options.signal)
      return await this.#assemble(spec)
    } finally {
      this.#coming.delete(spec)
    }
  }

  async remove(modelKey: string): Promise<void> {
    await rm(this.#modelDir(modelKey), { recursive: true, force: true })
    await this.#sweepBlobs()
  }

  #modelDir(modelKey: string): string {
    return join(this.#dir, 'models', encodeURIComponent(modelKey))
  }

  async #fetchBlob(
    { sha256, size_bytes, url }: NodeModelSpec['files'][number],
    meter: Meter,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    for (let other = this.#fetching.get(sha256); other; other = this.#fetching.get(sha256)) {
      // Whoever fetches it may give up for reasons of its own.
      await other.catch(() => {})
      signal?.throwIfAborted()
    }
    const path = join(this.#dir, 'blobs', sha256)
    const fetch = async () => {
      if (await hasSize(path, size_bytes)) return meter.skip(size_bytes)
      const onBytes = (count: number) => meter.add(count)
      const onLimited = (seconds: number) => meter.wait(seconds)
      await downloadFile({ url, path, sha256, onBytes, onLimited, ...(signal && { signal }) })
    }
    const fetching = fetch().finally(() => this.#fetching.delete(sha256))
    this.#fetching.set(sha256, fetching)
    await fetching
  }

  async #assemble(spec: NodeModelSpec): Promise<CachedModel> {
    const directory = this.#modelDir(spec.model_key)
    const part = `${directory}.part`
    await rm(part, { recursive: true, force: true })
    for (const { path, sha256 } of spec.files) {
      const target = join(part, 'files', normalize(join('/', path)))
      await mkdir(dirname(target), { recursive: true })
      await link(join(this.#dir, 'blobs', sha256), target)
    }
    // The URLs are for this hour only; everything else about a version never changes.
    const kept = { ...spec, files: spec.files.map((file) => ({ ...file, url: '' })) }
    await mkdir(part, { recursive: true })
    await writeFile(join(part, SPEC_FILE), JSON.stringify(kept))
    await rm(directory, { recursive: true, force: true })
    await rename(part, directory)
    return { spec: kept, directory: join(directory, 'files') }
  }

  async #makeRoom(bytes: number, keep: ReadonlySet<string>): Promise<void> {
    if (bytes > this.#quotaBytes) {
      throw new Error(
        `the model takes ${megabytes(bytes)} MB on disk, more than this node's quota for weights`,
      )
    }
    await mkdir(join(this.#dir, 'blobs'), { recursive: true })
    const oldest = await this.#removable(keep)
    for (;;) {
      const [used, { bavail, bsize }] = await Promise.all([this.#usedBytes(), statfs(this.#dir)])
      const isRoom = used + bytes <= this.#quotaBytes && bavail * bsize >= bytes + HEADROOM_BYTES
      if (isRoom) return
      const victim = oldest.shift()
      if (victim === undefined) break
      await this.remove(victim)
    }
    throw new Error(`there is no room on this node's disk for ${megabytes(bytes)} MB of weights`)
  }

  async #removable(keep: ReadonlySet<string>): Promise<string[]> {
    const keys = (await this.#keys()).filter((key) => !keep.has(key))
    const aged = await Promise.all(
      keys.map(async (key) => ({ key, usedAt: (await stat(this.#modelDir(key))).mtimeMs })),
    )
    return aged.toSorted((a, b) => a.usedAt - b.usedAt).map(({ key }) => key)
  }

  async #usedBytes(): Promise<number> {
    const blobs = join(this.#dir, 'blobs')
    const sizes = await Promise.all(
      (await readdir(blobs)).map(async (name) => (await stat(join(blobs, name))).size),
    )
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  /** A blob that no model links to any more, or is about to, goes; half a download stays for its resume. */
  async #sweepBlobs(): Promise<void> {
    const blobs = join(this.#dir, 'blobs')
    for (const name of await readdir(blobs).catch(() => [])) {
      if (name.endsWith('.part')) continue
      const path = join(blobs, name)
      // Another sweep may have taken it.
      const links = await stat(path).then(
        ({ nlink }) => nlink,
        () => 0,
      )
      if (links === 1 && !this.#isComing(name)) await rm(path, { force: true })
    }
  }

  #isComing(sha256: string): boolean {
    return [...this.#coming].some(({ files }) => files.some((file) => file.sha256 === sha256))
  }
}

const hasSize = (path: string, bytes: number): Promise<boolean> =>
  stat(path).then(
    ({ size }) => size === bytes,
    () => false,
  )

const megabytes = (bytes: number) => Math.ceil(bytes / 1024 / 1024)

/** Counts bytes and tells at most four times a second. */
class Meter {
  readonly #total: number
  readonly #tell: (progress: DownloadProgress) => void
  readonly #startedAt = performance.now()
  #done = 0
  #fetched = 0
  #toldAt = 0
  #limitedS = 0

  constructor(total: number, tell: (progress: DownloadProgress) => void) {
    this.#total = total
    this.#tell = tell
  }

  skip(bytes: number): void {
    this.#done += bytes
  }

  add(bytes: number): void {
    this.#done += bytes
    this.#fetched += bytes
    const now = performance.now()
    if (now - this.#toldAt < 250 && this.#done < this.#total) return
    this.#toldAt = now
    this.#say()
  }

  /** The other side lets nobody download for so many seconds; 0 when it does again. */
  wait(seconds: number): void {
    this.#limitedS = seconds
    this.#say()
  }

  #say(): void {
    const now = performance.now()
    const perSecond = this.#fetched / Math.max(0.001, (now - this.#startedAt) / 1000)
    const left = Math.max(0, this.#total - this.#done)
    this.#tell({
      bytes_downloaded: Math.min(this.#done, this.#total),
      bytes_total: this.#total,
      download_speed_mbps: Math.round((perSecond * 8) / 1e4) / 100,
      eta_seconds: perSecond > 0 ? Math.round((left / perSecond) * 10) / 10 : null,
      ...(this.#limitedS > 0 && { rate_limited_s: this.#limitedS }),
    })
  }
}
