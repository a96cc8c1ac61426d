import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import { digestOf } from './transfer.ts'

type ModelFiles = Pick<NodeModelSpec, 'files'>

/** The list of a conversion's output files with their digests. It is written last. */
const LIST_FILE = 'converted.json'
const DRAFT = /\.part$/

interface ConvertedFile {
  path: string
  sha256: string
}

/** Identifies the files of a model, so that equal files are converted once. */
const digestOfFiles = ({ files }: ModelFiles): string => {
  const named = files.map(({ path, sha256 }) => `${path} ${sha256}`).toSorted()
  return createHash('sha256').update(named.join('\n')).digest('hex')
}

/**
 * The conversions of models for their servers: a folder per set of files and recipe. A folder appears only once it is
 * complete, and stays as long as a model with these files is on the disk.
 */
export class Conversions {
  readonly #dir: string
  readonly #making = new Map<string, Promise<string>>()
  readonly #drafts = new Set<string>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Returns the name of a conversion. `recipe` identifies the method. */
  nameOf(model: ModelFiles, recipe: string): string {
    const digest = createHash('sha256').update(recipe).digest('hex')
    return `${digestOfFiles(model)}-${digest.slice(0, 16)}`
  }

  /** Returns the folder of a conversion; undefined if it doesn't exist. */
  async find(name: string): Promise<string | undefined> {
    const folder = join(this.#dir, name)
    return (await listIn(folder)) ? folder : undefined
  }

  /** Runs a conversion in a draft folder. Concurrent callers share one. */
  make(name: string, build: (draft: string) => Promise<void>): Promise<string> {
    const making = this.#making.get(name) ?? this.#make(name, build).finally(() => this.#making.delete(name))
    this.#making.set(name, making)
    return making
  }

  /** Returns the total size in bytes, without drafts in progress. */
  async size(): Promise<number> {
    const folders = (await this.#names()).filter((name) => !this.#drafts.has(name))
    const sizes = await Promise.all(folders.map((name) => sizeOf(join(this.#dir, name))))
    return sizes.reduce((sum, bytes) => sum + bytes, 0)
  }

  /** Removes the conversions of files that none of these models has; returns false if there were none. */
  async sweep(models: readonly ModelFiles[]): Promise<boolean> {
    const kept = new Set(models.map(digestOfFiles))
    return this.#remove((name) => !DRAFT.test(name) && !kept.has(name.split('-', 1)[0] ?? ''))
  }

  /** Removes drafts that an earlier run of this node left; returns false if there were none. */
  removeDrafts(): Promise<boolean> {
    return this.#remove((name) => DRAFT.test(name) && !this.#drafts.has(name))
  }

  /** Removes the conversions of a model if any of their files is damaged; returns false otherwise. */
  async dropIfDamaged(model: ModelFiles, signal: AbortSignal): Promise<boolean> {
    const prefix = `${digestOfFiles(model)}-`
    const damaged = new Set<string>()
    for (const name of await this.#names()) {
      const folder = join(this.#dir, name)
      if (!name.startsWith(prefix) || DRAFT.test(name)) continue
      for (const { path, sha256 } of (await listIn(folder)) ?? []) {
        const found = await digestOf(join(folder, path), signal).catch(() => undefined)
        signal.throwIfAborted()
        if (found !== sha256) damaged.add(name)
      }
    }
    return this.#remove((name) => damaged.has(name))
  }

  /** Removes all conversions of a model. */
  async drop(model: ModelFiles): Promise<void> {
    const prefix = `${digestOfFiles(model)}-`
    await this.#remove((name) => name.startsWith(prefix) && !DRAFT.test(name))
  }

  async #make(name: string, build: (draft: string) => Promise<void>): Promise<string> {
    const folder = join(this.#dir, name)
    const draftName = `${name}.${randomUUID()}.part`
    const draft = join(this.#dir, draftName)
    this.#drafts.add(draftName)
    try {
      await mkdir(draft, { recursive: true })
      await build(draft)
      const paths = await readdir(draft)
      const made: ConvertedFile[] = []
      for (const path of paths) made.push({ path, sha256: await digestOf(join(draft, path)) })
      await writeFile(join(draft, LIST_FILE), JSON.stringify(made))
      await rm(folder, { recursive: true, force: true })
      await rename(draft, folder)
    } finally {
      await rm(draft, { recursive: true, force: true })
      this.#drafts.delete(draftName)
    }
    // Remove the output of earlier versions of the recipe for the same files.
    const prefix = `${name.split('-', 1)[0]}-`
    await this.#remove((other) => other.startsWith(prefix) && other !== name && !DRAFT.test(other))
    return folder
  }

  async #remove(isOut: (name: string) => boolean): Promise<boolean> {
    const out = (await this.#names()).filter(isOut)
    // Remove the list first, so that no partially removed folder counts as complete.
    await Promise.all(
      out.map(async (name) => {
        await rm(join(this.#dir, name, LIST_FILE), { force: true })
        await rm(join(this.#dir, name), { recursive: true, force: true })
      }),
    )
    return out.length > 0
  }

  #names(): Promise<string[]> {
    return readdir(this.#dir).catch(() => [])
  }
}

async function listIn(folder: string): Promise<ConvertedFile[] | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, LIST_FILE), 'utf8')) as ConvertedFile[]
  } catch {
    return undefined
  }
}

async function sizeOf(folder: string): Promise<number> {
  const sizes = (await readdir(folder).catch(() => [])).map((name) =>
    stat(join(folder, name)).then(
      ({ size }) => size,
      () => 0,
    ),
  )
  return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0)
}
