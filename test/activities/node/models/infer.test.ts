import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { ApplicationFailure } from '@temporalio/activity'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { NodeDeps } from '../../../../activities/node/deps.ts'
import { createInferActivities } from '../../../../activities/node/models/infer.ts'
import { NOT_TAKEN, PLACED_SLOTS } from '../../../../domain/placement/node-queues.ts'
import { ControlClient } from '../../../../node-runtime/control/client.ts'
import type { Identity } from '../../../../node-runtime/control/identity.ts'
import { SlotShares } from '../../../../node-runtime/control/slot-shares.ts'
import { WorkRegistry } from '../../../../node-runtime/control/work-registry.ts'
import { ToolTurns } from '../../../../node-runtime/tools/turns.ts'
import { until } from '../../../support/assertions/until.ts'
import { gatewayAwayFor } from '../../../support/servers/gateway-away.ts'

const SHARE = PLACED_SLOTS / 2
/** The number of slots that all accounts together may use. */
const SHARED = (3 * PLACED_SLOTS) / 4

describe('a task on a node', () => {
  const controlOf = (origin: string): ControlClient => {
    const identity = { sign: () => ({}) } as unknown as Identity
    return new ControlClient({ identity, gateways: () => [origin], patienceMs: 60_000 })
  }

  async function infer({ origin }: { origin: string }, control = controlOf(origin)): Promise<void> {
    const tools = { has: () => true, run: (_key: string, input: Buffer) => Promise.resolve(input) }
    const deps = { control, tools, work: new WorkRegistry() } as unknown as NodeDeps
    try {
      const activities = createInferActivities(deps)
      await new MockActivityEnvironment().run(activities.inferTask.bind(activities), { taskId: randomUUID() })
    } finally {
      await control.close()
    }
  }

  /** A node whose tools run until the test ends them; `claims` counts its claims at the gateway. */
  class ToolNode implements AsyncDisposable {
    readonly slotShares = new SlotShares()
    readonly drain = new AbortController()
    readonly running: string[] = []
    readonly notTaken: string[] = []
    claims = 0
    readonly #over = new AbortController()
    readonly #tasks: Promise<void>[] = []
    readonly #control: ControlClient
    readonly #activities: ReturnType<typeof createInferActivities>
    #occupied = 0
    readonly #occupiedBy = new Map<string, number>()

    constructor(origin: string, atOnce: number) {
      this.#control = controlOf(origin)
      const claim = this.#control.claimTask.bind(this.#control)
      this.#control.claimTask = (...of) => {
        this.claims += 1
        return claim(...of) as Promise<never>
      }
      const turns = new ToolTurns(atOnce)
      const run = async (_key: string, input: Buffer, signal: AbortSignal, turn = '') => {
        using _turn = await turns.takeRun(turn, signal)
        this.running.push(turn)
        if (turn.startsWith('loud') && !this.#over.signal.aborted) await once(this.#over.signal, 'abort')
        return input
      }
      const { slotShares } = this
      const deps = { control: this.#control, tools: { run, turns }, work: new WorkRegistry(), slotShares }
      const stopping = () => this.drain.signal
      this.#activities = createInferActivities({ ...deps, stopping } as unknown as NodeDeps)
    }

    /** Returns how many slots of the node's queue are occupied by tasks, for one turn or in total. */
    occupied = (turn?: string): number =>
      turn === undefined ? this.#occupied : (this.#occupiedBy.get(turn) ?? 0)

    /** Starts a task as Temporal does when it has a slot for it. */
    infer(turn: string, isTool = true): Promise<void> {
      const task = this.#infer(turn, isTool)
      this.#tasks.push(task)
      return task
    }

    async [Symbol.asyncDispose](): Promise<void> {
      this.#over.abort()
      await Promise.all(this.#tasks)
      await this.#control.close()
    }

    async #infer(turn: string, isTool: boolean): Promise<void> {
      this.#count(turn, 1)
      try {
        const inferTask = this.#activities.inferTask.bind(this.#activities)
        await new MockActivityEnvironment().run(inferTask, { taskId: randomUUID(), turn, isTool })
      } catch (err) {
        if (err instanceof ApplicationFailure && err.type === NOT_TAKEN) this.notTaken.push(turn)
        else throw err
      } finally {
        this.#count(turn, -1)
      }
    }

    #count(turn: string, by: number): void {
      this.#occupied += by
      this.#occupiedBy.set(turn, this.occupied(turn) + by)
    }
  }

  for (const atOnce of [4, 16, 128])
    it(`leaves slots for other accounts while many of one account's tools sleep, on a node that runs ${atOnce} at a time`, async () => {
      using gateway = await gatewayAwayFor(0, /^$/)
      await using node = new ToolNode(gateway.origin, atOnce)

      for (let n = 0; n < SHARE + 48; n++) void node.infer('loud')
      const running = Math.min(SHARE - 8, atOnce - 1)
      await until(() => node.notTaken.length === 48 && node.running.length === running)

      assert.equal(node.occupied(), SHARE)
      assert.ok(node.claims <= SHARE - 8, 'the node must not claim a task that is waiting for its turn')
      await node.infer('quiet')
      assert.deepEqual([node.running.at(-1), node.notTaken.includes('quiet')], ['quiet', false])
      assert.equal(gateway.bodies.get('fail'), undefined)
    })

  it('leaves a quarter of the slots for loads, whichever tools are running', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new ToolNode(gateway.origin, 128)

    for (const turn of ['loud 1', 'loud 2']) for (let n = 0; n < PLACED_SLOTS; n++) void node.infer(turn)
    for (let n = 0; n < 3; n++) void node.infer(`quiet ${n}`)
    await until(() => node.notTaken.length >= 2 * PLACED_SLOTS - SHARED)

    assert.ok(node.occupied() <= SHARED)
    assert.ok(node.occupied('loud 1') <= SHARE)
    assert.ok(!node.notTaken.some((turn) => turn.startsWith('quiet')))
  })

  it("leaves slots for other accounts while one account's batch waits for a slow model", async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new ToolNode(gateway.origin, 4)

    for (let n = 0; n < PLACED_SLOTS; n++) void node.infer('loud', false)
    await until(() => node.notTaken.length === PLACED_SLOTS - SHARE && node.claims === SHARE)
    await node.infer('quiet', false)

    assert.equal(node.notTaken.includes('quiet'), false)
    assert.equal(
      gateway.bodies.get('fail'),
      undefined,
      'the node must not claim a task that it does not take',
    )
  })

  it("shares its account's slots with cohort stages", async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new ToolNode(gateway.origin, 128)
    const stages = Array.from({ length: SHARE - 5 }, () => node.slotShares.take('loud'))

    for (let n = 0; n < 10; n++) void node.infer('loud')
    await until(() => node.notTaken.length === 5 && node.running.length === 5)
    for (const stage of stages) stage[Symbol.dispose]()
    for (let n = 0; n < 10; n++) void node.infer('loud')

    await until(() => node.running.length === 15)
    assert.equal(node.notTaken.length, 5)
  })

  it('releases its slot when its node drains before its turn', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)
    await using node = new ToolNode(gateway.origin, 4)
    for (let n = 0; n < 10; n++) void node.infer('loud')
    await until(() => node.running.length === 3)

    node.drain.abort(new Error('this node is draining'))

    await until(() => node.notTaken.length === 3)
    assert.equal(node.claims, 7)
  })

  it('passes on the turn key from its claim when it fetches its input and reports its result, on a shared node', async () => {
    using gateway = await gatewayAwayFor(0, /^$/, { turn: 'quiet' })
    const control = controlOf(gateway.origin)
    const turns: (string | undefined)[] = []
    const [download, complete] = [control.download.bind(control), control.complete.bind(control)]
    control.download = (url, options) => {
      turns.push(options.turn)
      return download(url, options)
    }
    control.complete = (token, body, options) => {
      turns.push(options.turn)
      return complete(token, body, options)
    }

    await infer(gateway, control)

    assert.deepEqual(turns, ['quiet', 'quiet'])
  })

  it('requests a lease that outlasts the retries of a call under it', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)

    await infer(gateway)

    assert.equal(gateway.bodies.get('claim')?.lease_s, 90)
  })

  it('reads its input and reports its result once the database is back', async () => {
    using gateway = await gatewayAwayFor(4, /^(input|complete)$/)

    await infer(gateway)

    assert.equal(gateway.bodies.get('fail'), undefined)
    assert.deepEqual(gateway.bodies.get('complete')?.result, { text: 'hi' })
  })

  it('ends without a retry when the platform rejects its result as too large', async () => {
    using gateway = await gatewayAwayFor(1, /^complete$/, { status: 413, code: 'payload_too_large' })

    await assert.rejects(infer(gateway), { type: 'result_refused', nonRetryable: true })
    assert.equal(gateway.bodies.get('fail')?.retryable, false)
  })
})
