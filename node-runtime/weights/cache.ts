import { randomUUID } from 'node:crypto'
import { link, mkdir, readdir, readFile, rename, rm, stat, statfs, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { DiskFullError } from '../../platform/disk-space.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import { Blobs, PART } from './blobs.ts'
import { Conversions } from './conversions.ts'
import { DownloadMeter, type DownloadProgress } from './download-meter.ts'
import { modelKeysOf } from './keys.ts'
import { digestOf, downloadFile } from './transfer.ts'

export interface FetchOptions {
  signal?: AbortSignal
  onProgress: (progress: DownloadProgress) => void
  /** Requests new URLs for the files, because a download may outlive its signed URLs. */
  renew?: () => Promise<NodeModelSpec['files']>
}

/** A model with all files on this disk. */
export interface CachedModel {
  spec: NodeModelSpec
  directory: string
}

/** Returns the models that must stay on the disk now. It is called right before each removal. */
export type ProtectedModels = () => ReadonlySet<string>

/** Files that are about to be stored. */
type IncomingFiles = Pick<NodeModelSpec, 'files'>

export interface ConvertOptions {
  keep: ProtectedModels
  /** The maximum size on disk in bytes. */
  bytes: number
  /** Writes the result to an empty folder. */
  build: (draft: string) => Promise<void>
}

const HEADROOM_BYTES = 512 * 1024 * 1024
const SPEC_FILE = 'model.json'

/**
 * The weights on this node's disk. Blobs are named by digest, so models share common files. A model is a directory of
 * hard links to blobs, which appears only once it is complete. The size is bounded: least recently used models are
 * removed first.
 */
export class WeightsCache {
  readonly #dir: string
  readonly #quotaBytes: number
  readonly #blobs: Blobs
  /** The conversions of models for their servers. */
  readonly #conversions: Conversions
  /** Downloads in progress by digest, so that models that share a blob download it once. */
  readonly #fetching = new Map<string, Promise<void>>()
  /** Models that are being assembled, by key; other callers for the same model wait for the same promise. */
  readonly #assembling = new Map<string, Promise<CachedModel>>()
  /** Models that are being removed, by key. `find` waits for the end, so that no load uses a vanishing folder. */
  readonly #removing = new Map<string, Promise<void>>()
  /** Folders of models that are being assembled or removed. */
  readonly #moving = new Set<string>()
  /** Models that are being downloaded, whose blobs must not be swept yet. Their disk space is reserved. */
  readonly #coming = new Set<IncomingFiles>()
  /** The last call to `#makeRoom`. Calls run one after another, so that no two count the same space. */
  #making: Promise<void> = Promise.resolve()

  constructor({ dir, quotaMb }: { dir: string; quotaMb: number }) {
    this.#dir = dir
    this.#quotaBytes = quotaMb * 1024 * 1024
    this.#blobs = new Blobs(join(dir, 'blobs'))
    this.#conversions = new Conversions(join(dir, 'converted'))
  }

  /** Finishes removals that a crash interrupted: their folders are the only trace of blobs without a model. */
  async init(): Promise<void> {
    const parts = (await this.#modelNames()).filter((name) => PART.test(name))
    await Promise.all(parts.map((name) => this.#clear(join(this.#dir, 'models', name))))
  }

  /** Returns the keys of the models on this disk. */
  async list(): Promise<string[]> {
    return modelKeysOf(await this.#keys())
  }

  async #keys(): Promise<string[]> {
    return (await this.#modelNames()).filter((name) => !PART.test(name)).map(decodeURIComponent)
  }

  #modelNames(): Promise<string[]> {
    return readdir(join(this.#dir, 'models')).catch(() => [])
  }

  async find(modelKey: string): Promise<CachedModel | undefined> {
    await this.#removing.get(modelKey)
    return this.#read(modelKey)
  }

  async #read(modelKey: string): Promise<CachedModel | undefined> {
    const directory = this.#modelDir(modelKey)
    try {
      const spec = JSON.parse(await readFile(join(directory, SPEC_FILE), 'utf8')) as NodeModelSpec
      return { spec, directory: join(directory, 'files') }
    } catch {
      return undefined
    }
  }

  /** Records a model's last use for the order of removal, as the mtime of its folder, so that it survives restarts. */
  async touch(modelKey: string, at = new Date()): Promise<void> {
    await utimes(this.#modelDir(modelKey), at, at).catch(() => {})
  }

  /** Downloads the missing files, resuming where an earlier attempt stopped. */
  async fetch(spec: NodeModelSpec, keep: ProtectedModels, options: FetchOptions): Promise<CachedModel> {
    const total = spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    await this.#reserve(spec, () => new Set([...keep(), spec.model_key]))
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

  /** Returns the folder of a model's conversion; undefined if it doesn't exist. */
  findConversion(spec: NodeModelSpec, recipe: string): Promise<string | undefined> {
    return this.#conversions.find(this.#conversions.nameOf(spec, recipe))
  }

  /** Runs a conversion, which counts toward the quota and is removed with the last model that has the same files. */
  async convert(
    spec: NodeModelSpec,
    recipe: string,
    { keep, bytes, build }: ConvertOptions,
  ): Promise<string> {
    const name = this.#conversions.nameOf(spec, recipe)
    const coming = { files: [{ path: name, sha256: name, size_bytes: bytes, url: '' }] }
    await this.#reserve(coming, () => new Set([...keep(), spec.model_key]))
    try {
      return await this.#conversions.make(name, build)
    } finally {
      this.#coming.delete(coming)
    }
  }

  /** Removes a model if its files or conversions are damaged; returns false if all digests match. */
  async dropIfDamaged(modelKey: string, signal: AbortSignal): Promise<boolean> {
    const found = await this.find(modelKey)
    if (!found) return false
    const damaged = []
    for (const { path, sha256 } of found.spec.files) {
      const digest = await digestOf(inFolder(found.directory, path), signal).catch(() => undefined)
      signal.throwIfAborted()
      if (digest !== sha256) damaged.push(this.#blobs.path(sha256))
    }
    if (damaged.length === 0) return this.#conversions.dropIfDamaged(found.spec, signal)
    // The conversions were made from damaged files.
    await this.#conversions.drop(found.spec)
    await this.#takeAway(modelKey)
    // Other models may link to the same blobs, and would accept them because their size is right.
    await Promise.all(damaged.map((path) => rm(path, { force: true })))
    return true
  }

  /** Removes a model, and the blobs and conversions that no other model has. Safe to repeat after a crash at any step. */
  remove(modelKey: string): Promise<void> {
    const under = this.#removing.get(modelKey)
    if (under) return under
    const removing = this.#takeAway(modelKey, (part) => this.#clear(part)).finally(() =>
      this.#removing.delete(modelKey),
    )
    this.#removing.set(modelKey, removing)
    // `find` awaits the removal too, but only this caller handles its failure.
    removing.catch(() => {})
    return removing
  }

  async #sweepConversions(): Promise<void> {
    const left = await Promise.all((await this.#keys()).map((key) => this.#read(key)))
    await this.#conversions.sweep(left.flatMap((model) => (model ? [model.spec] : [])))
  }

  /** Renames the folder before deleting it, so that no reader finds a partial model, not even after a crash. */
  #takeAway(
    modelKey: string,
    deleteIt = (part: string) => rm(part, { recursive: true, force: true }),
  ): Promise<void> {
    const directory = this.#modelDir(modelKey)
    return this.#viaPart(directory, async (part) => {
      await rename(directory, part).catch(unlessGone)
      await deleteIt(part)
    })
  }

  /** Deletes a renamed folder and its unshared blobs. The folder is deleted last, because `init` searches for it. */
  async #clear(part: string): Promise<void> {
    await rm(join(part, 'files'), { recursive: true, force: true })
    await this.#sweepBlobs()
    await this.#sweepConversions()
    await rm(part, { recursive: true, force: true })
  }

  #modelDir(modelKey: string): string {
    return join(this.#dir, 'models', encodeURIComponent(modelKey))
  }

  async #fetchBlob(
    { sha256, size_bytes, url, from_hub }: NodeModelSpec['files'][number],
    meter: DownloadMeter,
    { signal, renew }: { signal: AbortSignal | undefined; renew: (() => Promise<string>) | undefined },
  ): Promise<void> {
    for (let other = this.#fetching.get(sha256); other; other = this.#fetching.get(sha256)) {
      // The other download may fail for its own reasons.
      await other.catch(() => {})
      signal?.throwIfAborted()
    }
    const path = this.#blobs.path(sha256)
    const fetch = async () => {
      if (await this.#blobs.has(sha256, size_bytes)) return meter.skip(size_bytes)
      const onBytes = (count: number) => meter.add(count)
      const onLimited = (seconds: number) => meter.wait(seconds)
      const options = { ...(signal && { signal }), ...(renew && { renew }) }
      await downloadFile({ url, path, sha256, isOutside: from_hub, onBytes, onLimited, ...options })
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
    // The URLs expire within an hour; all other data of a version is immutable.
    const stored = { ...spec, files: spec.files.map((file) => ({ ...file, url: '' })) }
    await this.#viaPart(directory, async (part) => {
      for (const { path, sha256 } of spec.files) {
        const target = inFolder(join(part, 'files'), path)
        await mkdir(dirname(target), { recursive: true })
        await link(this.#blobs.path(sha256), target)
      }
      await mkdir(join(part, 'files'), { recursive: true })
      await writeFile(join(part, SPEC_FILE), JSON.stringify(stored))
      // If the folder already exists, it is unreadable, due to a power loss or an earlier version of this program.
      await this.#takeAway(spec.model_key)
      await rename(part, directory)
    })
    return { spec: stored, directory: join(directory, 'files') }
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

  #reserve(spec: IncomingFiles, keep: ProtectedModels): Promise<void> {
    const making = this.#making.then(() => this.#makeRoom(spec, keep))
    this.#making = making.catch(() => {})
    return making
  }

  /** Makes room for a model's files, counting every other download in progress, and reserves it. */
  async #makeRoom(spec: IncomingFiles, keep: ProtectedModels): Promise<void> {
    const bytes = spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    if (bytes > this.#quotaBytes) {
      throw new Error(
        `the model takes ${megabytes(bytes)} MB on disk, more than this node's quota for weights of ${megabytes(this.#quotaBytes)} MB; set HEARTH_NODE_CACHE_GB on the node to raise it`,
      )
    }
    await mkdir(this.#blobs.dir, { recursive: true })
    this.#coming.add(spec)
    let oldest: string[] | undefined
    try {
      for (;;) {
        const [disk, { bavail, bsize }] = await Promise.all([this.#disk(), statfs(this.#dir)])
        if (disk.planned <= this.#quotaBytes && bavail * bsize >= disk.missing + HEADROOM_BYTES) return
        // A complete model is worth more than an abandoned partial download.
        if ((await this.#removeParts()) || (await this.#sweepBlobs())) continue
        if (oldest === undefined) {
          oldest = await this.#removable()
          // If removing all of them doesn't free enough space, it would only force new downloads.
          const freed = await this.#bytesIn(oldest.filter((key) => !keep().has(key)))
          if (disk.planned - freed > this.#quotaBytes) break
          if (bavail * bsize + freed < disk.missing + HEADROOM_BYTES) break
        }
        const victim = oldest.shift()
        if (victim === undefined) break
        // A load may have begun since the list was created. Nothing else can run between this check and `remove`.
        if (!keep().has(victim)) await this.remove(victim)
      }
    } catch (err) {
      this.#coming.delete(spec)
      throw err
    }
    this.#coming.delete(spec)
    throw new DiskFullError(`there is no room on this node's disk for ${megabytes(bytes)} MB of weights`)
  }

  /** Returns the models that may be removed, least recently used first. */
  async #removable(): Promise<string[]> {
    const keys = await this.#keys()
    const models = await Promise.all(keys.map((key) => this.#read(key)))
    const inJobs = await this.#blobs.usedByJobs(models.flatMap((model) => model?.spec ?? []))
    const aged = await Promise.all(
      keys
        .filter((key) => !inJobs.has(key))
        .map(async (key) => ({
          key,
          usedAt: await stat(this.#modelDir(key)).then(
            ({ mtimeMs }) => mtimeMs,
            () => 0,
          ),
        })),
    )
    return aged.toSorted((a, b) => a.usedAt - b.usedAt).map(({ key }) => key)
  }

  /** Returns the maximum number of bytes that removing these models frees; other models may share the conversions. */
  async #bytesIn(keys: readonly string[]): Promise<number> {
    const models = await Promise.all(keys.map((key) => this.#read(key)))
    if (models.includes(undefined)) return Number.POSITIVE_INFINITY
    const specs = models.flatMap((model) => model?.spec ?? [])
    if (specs.length === 0) return 0
    const inBlobs = await this.#blobs.bytesOnlyIn(specs, (sha256) => this.#isComing(sha256))
    return inBlobs + (await this.#conversions.size())
  }

  /** Returns the bytes on disk after all downloads in progress, and how many of them are still missing. */
  async #disk(): Promise<{ planned: number; missing: number }> {
    const wanted = new Map(
      [...this.#coming].flatMap(({ files }) => files.map(({ sha256, size_bytes }) => [sha256, size_bytes])),
    )
    const coming = [...wanted.values()].reduce((sum, bytes) => sum + bytes, 0)
    let [others, here] = [await this.#conversions.size(), 0]
    for (const { name, bytes } of await this.#blobs.list()) {
      if (wanted.has(name.replace(PART, ''))) here += bytes
      else others += bytes
    }
    return { planned: others + coming, missing: Math.max(0, coming - here) }
  }

  /** Removes abandoned partial downloads and partial models; returns false if there were none. */
  async #removeParts(): Promise<boolean> {
    const downloads = (await this.#blobs.list())
      .filter(({ name }) => PART.test(name) && !this.#isComing(name.replace(PART, '')))
      .map(({ name }) => this.#blobs.path(name))
    const models = (await this.#modelNames())
      .map((name) => join(this.#dir, 'models', name))
      .filter((path) => PART.test(path) && !this.#moving.has(path))
    await Promise.all(downloads.map((path) => rm(path, { force: true })))
    for (const path of models) await this.#clear(path)
    return (await this.#conversions.removeDrafts()) || downloads.length + models.length > 0
  }

  #sweepBlobs(): Promise<boolean> {
    return this.#blobs.sweep((sha256) => this.#isComing(sha256))
  }

  #isComing(sha256: string): boolean {
    return [...this.#coming].some(({ files }) => files.some((file) => file.sha256 === sha256))
  }
}

function unlessGone(err: unknown): void {
  if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err
}

/** Returns the path of a model's file; a name can't escape the folder. */
const inFolder = (folder: string, path: string): string => join(folder, normalize(join('/', path)))

const megabytes = (bytes: number) => Math.ceil(bytes / 1024 / 1024)
