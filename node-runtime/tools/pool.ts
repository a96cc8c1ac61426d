import type { InstalledTool, Stage } from './stage.ts'

/** For the tools in use, keeps programs started and waiting for input. Each program serves one request. */
export class ToolPool implements AsyncDisposable {
  readonly #size: number
  readonly #open: (installed: InstalledTool) => Promise<Stage>
  readonly #waiting = new Map<string, Stage[]>()
  readonly #starting = new Map<string, Promise<void>>()
  #isClosed = false

  /** @param size The number of waiting programs per tool. @param open Starts one. */
  constructor(size: number, open: (installed: InstalledTool) => Promise<Stage>) {
    this.#size = size
    this.#open = open
  }

  /** Returns a waiting program; undefined if there is none. */
  take(slug: string): Stage | undefined {
    const waiting = this.#waiting.get(slug) ?? []
    for (;;) {
      const stage = waiting.shift()
      if (!stage || stage.isWaiting) return stage
      void stage[Symbol.asyncDispose]()
    }
  }

  /** Starts programs one after another until `size` of them are waiting. */
  refill(installed: InstalledTool): void {
    const { slug } = installed.tool
    if (this.#size === 0 || this.#isClosed || this.#starting.has(slug)) return
    // If a program can't be started ahead of time, the next request reports the reason.
    const starting = this.#fill(slug, installed)
      .catch(() => {})
      .finally(() => this.#starting.delete(slug))
    this.#starting.set(slug, starting)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#starting.values())
    await Promise.all([...this.#waiting.values()].flat().map((stage) => stage[Symbol.asyncDispose]()))
    this.#waiting.clear()
  }

  async #fill(slug: string, installed: InstalledTool): Promise<void> {
    const waiting = this.#waiting.get(slug) ?? []
    this.#waiting.set(slug, waiting)
    while (waiting.length < this.#size && !this.#isClosed) waiting.push(await this.#open(installed))
  }
}
