import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'

/** The suffix of an incomplete file (see transfer.ts), and of a model's folder while it is assembled or removed. */
export const PART = /\.part$/

/** Stores every model file once, named by its digest. A model's folder has hard links to these files. */
export class Blobs {
  readonly dir: string

  constructor(dir: string) {
    this.dir = dir
  }

  path(sha256: string): string {
    return join(this.dir, sha256)
  }

  async has(sha256: string, bytes: number): Promise<boolean> {
    const blob = await stat(this.path(sha256)).catch(() => undefined)
    return blob?.size === bytes
  }

  /** Returns the name and size of each file, partial downloads included. */
  async list(): Promise<{ name: string; bytes: number }[]> {
    return Promise.all(
      (await readdir(this.dir)).map(async (name) => {
        // Meanwhile, a download may complete and rename its part, or a sweep may remove a blob.
        const bytes = await stat(this.path(name)).then(
          ({ size }) => size,
          () => 0,
        )
        return { name, bytes }
      }),
    )
  }

  /**
   * Removes blobs that no model links to or is about to link to; returns false if there were none. Keeps partial
   * downloads, so that they can be resumed.
   */
  async sweep(isComing: (sha256: string) => boolean): Promise<boolean> {
    let removed = 0
    for (const name of await readdir(this.dir).catch(() => [])) {
      if (PART.test(name)) continue
      // Another sweep may have removed it.
      const links = await stat(this.path(name)).then(
        ({ nlink }) => nlink,
        () => 0,
      )
      if (links !== 1 || isComing(name)) continue
      await rm(this.path(name), { force: true })
      removed += 1
    }
    return removed > 0
  }

  /**
   * Returns the keys of models with a file that a job has linked into its own folder (training/base-model.ts). Such a
   * blob has more links than `models` account for; `models` must contain all models on this disk. Removing these models
   * would free nothing.
   */
  async usedByJobs(models: readonly NodeModelSpec[]): Promise<Set<string>> {
    const links = linksOf(models)
    const elsewhere = new Set<string>()
    for (const [sha256, count] of links) {
      const blob = await stat(this.path(sha256)).catch(() => undefined)
      if (blob && blob.nlink > 1 + count) elsewhere.add(sha256)
    }
    const isUsed = ({ files }: NodeModelSpec) => files.some(({ sha256 }) => elsewhere.has(sha256))
    return new Set(models.filter(isUsed).map(({ model_key }) => model_key))
  }

  /** Returns how many bytes removing these models would free. */
  async bytesOnlyIn(
    models: readonly NodeModelSpec[],
    isComing: (sha256: string) => boolean,
  ): Promise<number> {
    let bytes = 0
    for (const [sha256, count] of linksOf(models)) {
      if (isComing(sha256)) continue
      const blob = await stat(this.path(sha256)).catch(() => undefined)
      if (blob?.nlink === 1 + count) bytes += blob.size
    }
    return bytes
  }
}

/** Returns the number of links that these models have to each file. */
function linksOf(models: readonly NodeModelSpec[]): Map<string, number> {
  const links = new Map<string, number>()
  for (const { files } of models)
    for (const { sha256 } of files) links.set(sha256, (links.get(sha256) ?? 0) + 1)
  return links
}
