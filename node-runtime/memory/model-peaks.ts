import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** The peak memory of each model that has run on this node. It is stored in a file, for later loads and starts. */
export class ModelPeaks {
  readonly #path: string
  readonly #peaks: Map<string, number>

  constructor(path: string) {
    this.#path = path
    this.#peaks = new Map(Object.entries(read(path)))
  }

  of(modelKey: string): number | undefined {
    return this.#peaks.get(modelKey)
  }

  note(modelKey: string, peakMb: number): void {
    if (this.#peaks.get(modelKey) === peakMb) return
    this.#peaks.set(modelKey, peakMb)
    try {
      mkdirSync(dirname(this.#path), { recursive: true })
      writeFileSync(`${this.#path}.part`, JSON.stringify(Object.fromEntries(this.#peaks)))
      renameSync(`${this.#path}.part`, this.#path)
    } catch {
      // The disk may be full. The peak is observed again after the next start.
    }
  }
}

function read(path: string): Record<string, number> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>
  } catch {
    // The file is missing or truncated. We use the profile's estimate until the peak is observed again.
    return {}
  }
}
