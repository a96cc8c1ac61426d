import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { ApplicationFailure } from '@temporalio/activity'
import { MockActivityEnvironment } from '@temporalio/testing'
import { createCohortActivities } from '../../../../activities/node/cohorts/run-stage.ts'
import type { NodeDeps } from '../../../../activities/node/deps.ts'
import { NOT_TAKEN, PLACED_SLOTS } from '../../../../domain/placement/node-queues.ts'
import { ControlClient } from '../../../../node-runtime/control/client.ts'
import type { Identity } from '../../../../node-runtime/control/identity.ts'
import { SlotShares } from '../../../../node-runtime/control/slot-shares.ts'
import { WorkRegistry } from '../../../../node-runtime/control/work-registry.ts'
import { ToolTurns } from '../../../../node-runtime/tools/turns.ts'
import { until } from '../../../support/assertions/until.ts'
import { gatewayAwayFor } from '../../../support/servers/gateway-away.ts'

const SHARE = PLACED_SLOTS / 2

describe('cohort stages on a node', () => {
  /** A node with two cores. Its tools run until the test ends them, except those of the account `quiet`. */
  class StageNode implements AsyncDisposable {
    readonly #turns = new Map<string, string | undefined>()
    readonly running: string[] = []
    readonly ends: string[] = []
    claims = 0
    readonly #over = new AbortController()
    readonly #stages: Promise<void>[] = []
    readonly #control: ControlClient
    readonly #activities: ReturnType<typeof createCohortActivities>

    constructor(origin: string) {
      const identity = { sign: () => ({}) } as unknown as Identity
      this.#control = new ControlClient({ identity, gateways: () => [origin], patienceMs: 60_000 })
      const claim = this.#control.claimStage.bind(this.#control)
      this.#control.claimStage = async (...of) => {
        this.claims += 1
        const claimed = await claim<object>(...of)
        return { ...claimed, turn: this.#turns.get(of[1]) } as never
      }
      const turns = new ToolTurns(4)
      const tools = {
        fileFieldsOf: () => [],
        refusalOf: () => undefined,
        run: async (_key: string, input: Buffer, signal: AbortSignal, turn = '') => {
          using _turn = await turns.takeRun(turn, signal)
          this.running.push(turn)
          if (turn !== 'quiet' && !this.#over.signal.aborted) await once(this.#over.signal, 'abort')
          return input
        },
      }
      const deps = { control: this.#control, tools, work: new WorkRegistry(), slotShares: new SlotShares() }
      this.#activities = createCohortActivities(deps as unknown as NodeDeps)
    }

    /** Starts a stage as Temporal does when it has a slot for it. */
    run(turn?: string): Promise<void> {
      const runStage = this.#activities.runStage.bind(this.#activities)
      const call = { cohortId: randomUUID(), stageId: randomUUID(), ...(turn !== undefined && { turn }) }
      this.#turns.set(call.stageId, turn)
      const stage = new MockActivityEnvironment().run(runStage, call).then(
        () => void this.ends.push('done'),
        (err: unknown) => void this.ends.push(err instanceof ApplicationFailure ? err.type! : String(err)),
      )
      this.#stages.push(stage)
      return stage
    }

    /** Ends the running tools. */
    async end(): Promise<void> {
      this.#over.abort()
      await Promise.all(this.#stages)
    }

    async [Symbol.asyncDispose](): Promise<void> {
      await this.end()
      await this.#control.close()
    }
  }

  it("leave half of the slots to other accounts while one account's tools sleep", async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new StageNode(gateway.origin)

    for (let n = 0; n < PLACED_SLOTS; n++) void node.run('loud')
    await until(() => node.ends.length === PLACED_SLOTS - SHARE && node.claims === SHARE)

    assert.ok(node.ends.every((end) => end === NOT_TAKEN))
    await node.run('quiet')
    assert.equal(node.ends.at(-1), 'done')
    assert.equal(
      gateway.bodies.get('fail'),
      undefined,
      'the node must not claim a stage that it does not take',
    )
  })

  it('are accepted again once other stages of their account have ended', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new StageNode(gateway.origin)
    for (let n = 0; n < SHARE + 8; n++) void node.run('loud')
    await until(() => node.ends.length === 8)

    await node.end()
    await node.run('loud')

    assert.deepEqual(
      node.ends.slice(8),
      Array.from({ length: SHARE + 1 }, () => 'done'),
    )
  })

  it('are all accepted from an older worker, which does not place them again', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new StageNode(gateway.origin)

    for (let n = 0; n < SHARE + 8; n++) void node.run()
    await until(() => node.claims === SHARE + 8)

    await node.end()
    assert.ok(node.ends.every((end) => end === 'done'))
  })
})
