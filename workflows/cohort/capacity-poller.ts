import { condition, sleep } from '@temporalio/workflow'
import { PAUSE } from '../contract/policy.ts'

interface WaitingStage {
  stageId: string
  avoid: readonly string[]
}

/**
 * Stages that no node can run now. One lookup serves all of them, so that many stages that wait for hours add no more
 * events to the history than one.
 */
export class CapacityPoller {
  readonly #find: (waiting: readonly WaitingStage[]) => Promise<string[]>
  readonly #waiting = new Map<string, WaitingStage>()
  #isNews = false
  isLooking = false

  /** `find` returns the ids of the stages that have a node now. */
  constructor(find: (waiting: readonly WaitingStage[]) => Promise<string[]>) {
    this.#find = find
  }

  /** Resolves once a node can run the stage. */
  async wait(waiting: WaitingStage): Promise<void> {
    const { stageId } = waiting
    this.#waiting.set(stageId, waiting)
    this.#isNews = true
    try {
      await condition(() => this.#waiting.get(stageId) !== waiting)
    } finally {
      if (this.#waiting.get(stageId) === waiting) this.#waiting.delete(stageId)
    }
  }

  /** Polls for nodes while stages wait, with exponential back-off that resets when another stage starts waiting. */
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
