import { randomUUID } from 'node:crypto'
import { link, mkdir, readdir, readFile, rename, rm, stat, statfs, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import type { NodeModelSpec } from '../../schemas/node.ts'
import { DownloadMeter, type DownloadProgress } from './download-meter.ts'
import { digestOf, downloadFile } from './transfer.ts'

export interface FetchOptions {
  signal?: AbortSignal
  onProgress: (progress: DownloadProgress) => void
  /** Asks anew where the files are; a download may outlive the addresses it began with. */
  renew?: () => Promise<NodeModelSpec['files']>
}

/** A model that is whole on this disk. */
export interface CachedModel {
  spec: NodeModelSpec
  directory: string
}

const HEADROOM_BYTES = 512 * 1024 * 1024
const SPEC_FILE = 'model.json'
/** How what is not whole ends: a file on its way here (transfer.ts), a folder on its way in or out. */
const PART = /\.part$/
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
  /** Models that are being put in place, by key: whoever else wants one of them waits for the same. */
  readonly #assembling = new Map<string, Promise<CachedModel>>()
  /** Folders of models that are on their way in or out. */
  readonly #moving = new Set<string>()
  /** What is being fetched: its blobs are nobody's yet, but will be, and their room is taken. */
  readonly #coming = new Set<NodeModelSpec>()
  /** The last one that made room; two at once would count the same room. */
  #making: Promise<void> = Promise.resolve()

  constructor({ dir, quotaMb }: { dir: string; quotaMb: number }) {
    this.#dir = dir
    this.#quotaBytes = quotaMb * 1024 * 1024
  }

  /** Keys of the models that are here. */
  async list(): Promise<string[]> {
    return (await this.#keys()).filter((key) => !key.startsWith(BASE_PREFIX))
  }

  async #keys(): Promise<string[]> {
    return (await this.#modelNames()).filter((name) => !PART.test(name)).map(decodeURIComponent)
  }

  #modelNames(): Promise<string[]> {
    return readdir(join(this.#dir, 'models')).catch(() => [])
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
    const making = this.#making.then(() => this.#makeRoom(spec, new Set([...keep, spec.model_key])))
    this.#making = making.catch(() => {})
    await making
    const meter = new DownloadMeter(total, options.onProgress)
    let { files } = spec
    const urlOf = (path: string) => files.find((file) => file.path === path)?.url ?? ''
    const { signal, renew } = options
    try {
      for (const file of spec.files) {
        const renewUrl =
          renew &&
          (async () => {
            files = await renew()
            return urlOf(file.path)
          })
        await this.#fetchBlob({ ...file, url: urlOf(file.path) }, meter, { signal, renew: renewUrl })
      }
      return await this.#putInPlace(spec)
    } finally {
      this.#coming.delete(spec)
    }
  }

  /** Takes a model off the disk if some of its bytes are not those of its version; false when they all are. */
  async dropIfDamaged(modelKey: string, signal: AbortSignal): Promise<boolean> {
    const found = await this.find(modelKey)
    if (!found) return false
    const damaged = []
    for (const { path, sha256 } of found.spec.files) {
      const digest = await digestOf(inFolder(found.directory, path), signal).catch(() => undefined)
      signal.throwIfAborted()
      if (digest !== sha256) damaged.push(join(this.#dir, 'blobs', sha256))
    }
    if (damaged.length === 0) return false
    await this.#takeAway(modelKey)
    // Other models may link to them too, and would find them whole by their size.
    await Promise.all(damaged.map((path) => rm(path, { force: true })))
    return true
  }

  async remove(modelKey: string): Promise<void> {
    await this.#takeAway(modelKey)
    await this.#sweepBlobs()
  }

  /** Out of the way in one step: nobody may find half of it, not even after a crash. */
  #takeAway(modelKey: string): Promise<void> {
    const directory = this.#modelDir(modelKey)
    return this.#viaPart(directory, async (part) => {
      await rename(directory, part).catch(unlessGone)
      await rm(part, { recursive: true, force: true })
    })
  }

  #modelDir(modelKey: string): string {
    return join(this.#dir, 'models', encodeURIComponent(modelKey))
  }

  async #fetchBlob(
    { sha256, size_bytes, url }: NodeModelSpec['files'][number],
    meter: DownloadMeter,
    { signal, renew }: { signal: AbortSignal | undefined; renew: (() => Promise<string>) | undefined },
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
      const options = { ...(signal && { signal }), ...(renew && { renew }) }
      await downloadFile({ url, path, sha256, onBytes, onLimited, ...options })
    }
    const fetching = fetch().finally(() => this.#fetching.delete(sha256))
    this.#fetching.set(sha256, fetching)
    await fetching
  }

  #putInPlace(spec: NodeModelSpec): Promise<CachedModel> {
    const { model_key: key } = spec
    const under = this.#assembling.get(key)
    if (under) return under
    const assembling = this.#assemble(spec).finally(() => this.#assembling.delete(key))
    this.#assembling.set(key, assembling)
    return assembling
  }

  async #assemble(spec: NodeModelSpec): Promise<CachedModel> {
    const found = await this.find(spec.model_key)
    if (found) return found
    const directory = this.#modelDir(spec.model_key)
    // The URLs are for this hour only; everything else about a version never changes.
    const kept = { ...spec, files: spec.files.map((file) => ({ ...file, url: '' })) }
    await this.#viaPart(directory, async (part) => {
      for (const { path, sha256 } of spec.files) {
        const target = inFolder(join(part, 'files'), path)
        await mkdir(dirname(target), { recursive: true })
        await link(join(this.#dir, 'blobs', sha256), target)
      }
      await mkdir(join(part, 'files'), { recursive: true })
      await writeFile(join(part, SPEC_FILE), JSON.stringify(kept))
      // What stands there cannot be read: a disk that lost power, or an earlier version of this.
      await this.#takeAway(spec.model_key)
      await rename(part, directory)
    })
    return { spec: kept, directory: join(directory, 'files') }
  }

  async #viaPart(directory: string, move: (part: string) => Promise<void>): Promise<void> {
    const part = `${directory}.${randomUUID()}.part`
    this.#moving.add(part)
    try {
      await move(part)
    } finally {
      this.#moving.delete(part)
    }
  }

  /** Takes the room of a model's files, counting what else is coming; what it needs is its own from here on. */
  async #makeRoom(spec: NodeModelSpec, keep: ReadonlySet<string>): Promise<void> {
    const bytes = spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    if (bytes > this.#quotaBytes) {
      throw new Error(
        `the model takes ${megabytes(bytes)} MB on disk, more than this node's quota for weights`,
      )
    }
    await mkdir(join(this.#dir, 'blobs'), { recursive: true })
    const oldest = await this.#removable(keep)
    this.#coming.add(spec)
    try {
      for (;;) {
        const [disk, { bavail, bsize }] = await Promise.all([this.#disk(), statfs(this.#dir)])
        if (disk.planned <= this.#quotaBytes && bavail * bsize >= disk.missing + HEADROOM_BYTES) return
        // Half a download that nobody goes on with is worth less than a whole model.
        if (await this.#removeParts()) continue
        const victim = oldest.shift()
        if (victim === undefined) break
        await this.remove(victim)
      }
    } catch (err) {
      this.#coming.delete(spec)
      throw err
    }
    this.#coming.delete(spec)
    throw new Error(`there is no room on this node's disk for ${megabytes(bytes)} MB of weights`)
  }

  async #removable(keep: ReadonlySet<string>): Promise<string[]> {
    const keys = (await this.#keys()).filter((key) => !keep.has(key))
    const aged = await Promise.all(
      keys.map(async (key) => ({ key, usedAt: (await stat(this.#modelDir(key))).mtimeMs })),
    )
    return aged.toSorted((a, b) => a.usedAt - b.usedAt).map(({ key }) => key)
  }

  /** Bytes on disk once everything that is coming has come, and how many of them are still missing. */
  async #disk(): Promise<{ planned: number; missing: number }> {
    const wanted = new Map(
      [...this.#coming].flatMap(({ files }) => files.map(({ sha256, size_bytes }) => [sha256, size_bytes])),
    )
    const coming = [...wanted.values()].reduce((sum, bytes) => sum + bytes, 0)
    let [others, here] = [0, 0]
    for (const { name, bytes } of await this.#blobs()) {
      if (wanted.has(name.replace(PART, ''))) here += bytes
      else others += bytes
    }
    return { planned: others + coming, missing: Math.max(0, coming - here) }
  }

  async #blobs(): Promise<{ name: string; bytes: number }[]> {
    const blobs = join(this.#dir, 'blobs')
    return Promise.all(
      (await readdir(blobs)).map(async (name) => {
        // A part becomes a blob, and a sweep takes one, at any time.
        const bytes = await stat(join(blobs, name)).then(
          ({ size }) => size,
          () => 0,
        )
        return { name, bytes }
      }),
    )
  }

  /** Removes every half download and half model that nobody is at; false when there was none. */
  async #removeParts(): Promise<boolean> {
    const downloads = (await this.#blobs())
      .filter(({ name }) => PART.test(name) && !this.#isComing(name.replace(PART, '')))
      .map(({ name }) => join(this.#dir, 'blobs', name))
    const models = (await this.#modelNames())
      .map((name) => join(this.#dir, 'models', name))
      .filter((path) => PART.test(path) && !this.#moving.has(path))
    const idle = [...downloads, ...models]
    await Promise.all(idle.map((path) => rm(path, { recursive: true, force: true })))
    if (models.length > 0) await this.#sweepBlobs()
    return idle.length > 0
  }

  /** A blob that no model links to any more, or is about to, goes; half a download stays for its resume. */
  async #sweepBlobs(): Promise<void> {
    const blobs = join(this.#dir, 'blobs')
    for (const name of await readdir(blobs).catch(() => [])) {
      if (PART.test(name)) continue
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

function unlessGone(err: unknown): void {
  if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err
}

const hasSize = (path: string, bytes: number): Promise<boolean> =>
  stat(path).then(
    ({ size }) => size === bytes,
    () => false,
  )

/** Where a file of a model lies; no name leads out of the folder. */
const inFolder = (folder: string, path: string): string => join(folder, normalize(join('/', path)))

const megabytes = (bytes: number) => Math.ceil(bytes / 1024 / 1024)
