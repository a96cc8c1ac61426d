import { CohortCaller } from './cohort-caller.ts'
import { type InferenceWorld, startInferenceWorld, type WorldNode } from './inference-world.ts'

/** A node and an account that runs cohorts on it; the workflows run once a test starts a control worker. */
export class CohortWorld implements AsyncDisposable {
  readonly on: InferenceWorld
  readonly cohorts: CohortCaller
  readonly node: WorldNode

  private constructor(on: InferenceWorld, node: WorldNode) {
    this.on = on
    this.cohorts = new CohortCaller(on)
    this.node = node
  }

  static async start(): Promise<CohortWorld> {
    await using stack = new AsyncDisposableStack()
    const on = stack.use(await startInferenceWorld())
    const world = new CohortWorld(on, await on.node())
    stack.move()
    return world
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
    await this.on[Symbol.asyncDispose]()
  }
}
