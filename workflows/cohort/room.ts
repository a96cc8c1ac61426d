import { condition, sleep } from '@temporalio/workflow'
import { PAUSE } from '../contract/policy.ts'

interface Waiting {
  stageId: string
  avoid: readonly string[]
}

/**
 * Stages that no node can run now. One look is for all of them together, so that many that wait for hours put no more into
 * the history than one.
 */
export class Room {
  readonly #find: (waiting: readonly Waiting[]) => Promise<string[]>
  readonly #waiting = new Map<string, Waiting>()
  #isNews = false
  isLooking = false

  /** `find` returns the ids of those for which there is a node. */
  constructor(find: (waiting: readonly Waiting[]) => Promise<string[]>) {
    this.#find = find
  }

  /** Resolves once there is a node for a stage. */
  async wait(waiting: Waiting): Promise<void> {
    const { stageId } = waiting
    this.#waiting.set(stageId, waiting)
    this.#isNews = true
    try {
      await condition(() => this.#waiting.get(stageId) !== waiting)
    } finally {
      if (this.#waiting.get(stageId) === waiting) this.#waiting.delete(stageId)
    }
  }

  /** Looks for nodes for as long as stages wait: soon after another one has come, and then more and more seldom. */
  async look(): Promise<never> {
    const { firstMs, longestMs } = PAUSE.forNode
    let pause: number = firstMs
    for (;;) {
      await condition(() => this.#waiting.size > 0)
      if (this.#isNews) pause = firstMs
      this.#isNews = false
      if (pause === firstMs) await sleep(pause)
      else if (await condition(() => this.#isNews, pause)) continue
      this.isLooking = true
      const found = await this.#find([...this.#waiting.values()])
      this.isLooking = false
      for (const stageId of found) this.#waiting.delete(stageId)
      pause = Math.min(longestMs, 2 * pause)
    }
  }
}
