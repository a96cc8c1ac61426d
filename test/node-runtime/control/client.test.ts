import assert from 'node:assert/strict'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeEnd } from '../../../node-runtime/cohorts/edge-end.ts'
import { ControlClient } from '../../../node-runtime/control/client.ts'
import type { Identity } from '../../../node-runtime/control/identity.ts'

/** A gateway that has no hand-over updates, and answers every other call at once. */
class QuietGateway implements AsyncDisposable {
  readonly #server = createServer((req, res) => {
    const answer = async () => {
      if (req.method === 'GET') return this.#sendInput(res, Buffer.alloc(10_000))
      const input = /stages\/large[^/]*:claim$/.test(req.url ?? '') ? 'x'.repeat(10_000) : undefined
      if (input !== undefined) return this.#sendInput(res, Buffer.from(JSON.stringify({ input })))
      const { wait_ms = 0 } = (await json(req)) as { wait_ms?: number }
      const cohort = /cohorts\/([^/]+)\/edges/.exec(req.url ?? '')?.[1]
      if (cohort !== undefined) this.#note(cohort, 1)
      await sleep(wait_ms)
      if (cohort !== undefined) this.#note(cohort, -1)
      res.end(JSON.stringify({ attempt: 1, state: 'offered' }))
    }
    answer().catch(() => res.destroy())
  })
  readonly answered = new Map<string, number>()
  waiting = 0
  mostWaiting = 0

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Sends an input over a slow connection. */
  async #sendInput(res: ServerResponse, bytes: Buffer): Promise<void> {
    for (let n = 0; n < bytes.length; n += 1_000) {
      res.write(bytes.subarray(n, n + 1_000))
      await sleep(100)
    }
    res.end()
  }

  #note(cohort: string, change: 1 | -1): void {
    this.waiting += change
    this.mostWaiting = Math.max(this.mostWaiting, this.waiting)
    if (change === -1) this.answered.set(cohort, (this.answered.get(cohort) ?? 0) + 1)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

describe('ControlClient while stages are waiting for their values', () => {
  const STAGES = 200

  it("claims work at once, and lets another cohort's hand-overs take their turn", async () => {
    await using gateway = new QuietGateway()
    const origin = await gateway.start()
    const identity = { sign: () => ({}) } as unknown as Identity
    const control = new ControlClient({ identity, gateways: () => [origin] })
    const over = new AbortController()
    const wait = async (cohortId: string, number: number) => {
      const caller = { control, cohortId, leaseToken: 'lease' }
      const end = new EdgeEnd(caller, 'consumer', { edge_id: `edge-${number}`, attempt: 1 })
      while (!over.signal.aborted) await end.negotiate({} as never, { signal: over.signal })
    }
    const stages = Array.from({ length: STAGES }, async (_, number) => wait('large', number).catch(() => {}))
    try {
      await sleep(1_000)
      const began = performance.now()
      await control.claimTask('task', {})
      await control.lease('renew', 'lease', {})
      assert.ok(performance.now() - began < 1_000, 'claims and leases do not wait for hand-overs')
      assert.ok(gateway.mostWaiting < STAGES / 2, `${gateway.mostWaiting} calls waited at once`)

      stages.push(wait('small', 0).catch(() => {}))
      const before = performance.now()
      while (!gateway.answered.get('small')) await sleep(50)
      const tookMs = performance.now() - before
      // A call waits for three seconds; without fair turns this one would be the 201st.
      assert.ok(tookMs < 5_000, `the hand-over of another cohort was asked for after ${tookMs} ms`)
    } finally {
      over.abort()
      await Promise.all(stages)
      await control.close()
    }
  })

  it("claims work while another account's inputs arrive slowly, and receives its own input", async () => {
    await using gateway = new QuietGateway()
    const origin = await gateway.start()
    const identity = { sign: () => ({}) } as unknown as Identity
    const control = new ControlClient({ identity, gateways: () => [origin] })
    const over = new AbortController()
    const download = (turn: string) => control.download('/api/v1/input', { turn, signal: over.signal })
    let done = 0
    const inputs = Array.from({ length: 64 }, async () => {
      await download('large').catch(() => {})
      done += 1
    })
    try {
      await sleep(100)
      await control.lease('renew', 'lease', {})
      assert.equal(done, 0)
      const { body } = await download('small')

      assert.equal(body.length, 10_000)
      assert.ok(done < 20, `${done} inputs of the other account came before`)
    } finally {
      over.abort()
      await Promise.all(inputs)
      await control.close()
    }
  })

  it("claims and renews while another account's stage claims return their inputs slowly", async () => {
    await using gateway = new QuietGateway()
    const origin = await gateway.start()
    const identity = { sign: () => ({}) } as unknown as Identity
    const control = new ControlClient({ identity, gateways: () => [origin] })
    const over = new AbortController()
    const { signal } = over
    let done = 0
    const claims = Array.from({ length: 48 }, async (_, n) => {
      await control.claimStage('cohort', `large-${n}`, {}, { turn: 'large', signal }).catch(() => {})
      done += 1
    })
    try {
      await sleep(100)
      await control.claimTask('task', {})
      await control.lease('renew', 'lease', {})
      await control.claimStage('cohort', 'small', {}, { turn: 'small', signal })
      assert.equal(done, 0)
      const { input } = await control.claimStage<{ input: string }>(
        'cohort',
        'large-own',
        {},
        { turn: 'small' },
      )

      assert.equal(input.length, 10_000)
      assert.ok(done < 20, `${done} claims of the other account came before`)
    } finally {
      over.abort()
      await Promise.all(claims)
      await control.close()
    }
  })
})
