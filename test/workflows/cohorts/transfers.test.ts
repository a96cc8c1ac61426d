import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { freePorts } from '../../../platform/free-ports.ts'
import { beforeEdgeCalls, type EdgeCall } from '../../support/assertions/edge-calls.ts'
import { SOON_MS } from '../../support/assertions/until.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { attemptsIn } from '../../support/servers/worlds/cohort-caller.ts'
import type { WorldNode } from '../../support/servers/worlds/inference-world.ts'
import { requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'
import { PromptWorld } from '../../support/servers/worlds/prompt-world.ts'

const ONCE = { prefill: 'succeeded 1', decode: 'succeeded 1' }

describe('a hand-over between nodes', function () {
  this.timeout(200_000)
  let world: PromptWorld
  let producer: WorldNode
  let consumer: WorldNode
  let control: AsyncDisposable
  before(requireLlamaCpp)
  before(async () => {
    world = await PromptWorld.start()
    control = await world.on.control()
    producer = await world.node()
    consumer = await world.node()
  })
  after(async () => {
    for (const one of [consumer, producer, control, world]) await one?.[Symbol.asyncDispose]()
  })

  // Under load a probe can exceed its 2 s timeout, and the platform then relays this pair's payloads for ten minutes.
  beforeEach(async () => {
    await world.on.api.database.db.updateTable('edge_rate').set({ unreachable_until: null }).execute()
  })

  const start = (more: object = {}) =>
    world.cohorts.run(world.planOf({ prefill: [producer], decode: [consumer], ...more }))
  /** Makes consumers find the producer at a port. */
  const advertise = (port: number) =>
    beforeEdgeCalls(producer, ({ verb, body }) => {
      const candidates = body['candidates'] as { url: string; scope: string }[] | undefined
      if (verb !== 'rendezvous' || !candidates) return
      body['candidates'] = candidates.map((one) => ({ ...one, url: `https://127.0.0.1:${port}` }))
    })
  const throughProxy = async (): Promise<{ proxy: TcpProxy } & AsyncDisposable> => {
    const server = await producer.parts.edges.server()
    const proxy = await startTcpProxy(Number(new URL(server!.candidates[0]!.url).port))
    const advertised = advertise(proxy.port)
    return {
      proxy,
      async [Symbol.asyncDispose]() {
        advertised[Symbol.dispose]()
        await proxy[Symbol.asyncDispose]()
      },
    }
  }
  const begins = ({ verb, body }: EdgeCall) => verb === 'transfer' && body.phase === 'begin'
  const files = async () =>
    (await Promise.all([producer, consumer].map(({ dir }) => readdir(join(dir, 'edges'))))).flat()

  it('delivers the original bytes even if a byte is flipped in transit', async () => {
    await using between = await throughProxy()
    using _watched = beforeEdgeCalls(consumer, (call) => {
      if (begins(call)) between.proxy.flipAt = between.proxy.bytes + 200_000
    })

    const { seen, edge } = await world.succeeded(await start())

    assert.deepEqual(attemptsIn(seen), ONCE)
    assert.deepEqual([edge.transport, edge.attempt], ['direct', 1])
    assert.equal(between.proxy.flipAt, undefined)
    assert.ok(between.proxy.connections > 2, `${between.proxy.connections} connections`)
  })

  it('is retried when no byte arrives for 10 s', async () => {
    await using between = await throughProxy()
    using _watched = beforeEdgeCalls(consumer, (call) => {
      if (call.body['attempt'] !== 1) between.proxy.isMute = false
      else if (begins(call)) between.proxy.isMute = true
    })

    const { seen, edge } = await world.succeeded(await start())

    assert.deepEqual(attemptsIn(seen), { prefill: 'succeeded 1', decode: 'succeeded 2' })
    assert.deepEqual([edge.transport, edge.attempt], ['direct', 2])
  })

  it('releases its sockets, files, reservations and leases soon after a cancellation', async () => {
    await using between = await throughProxy()
    using _watched = beforeEdgeCalls(consumer, (call) => {
      if (begins(call)) between.proxy.isMute = true
    })
    const run = await start()
    await until(() => between.proxy.isMute)
    await until(async () => (await world.cohorts.summary(run)).edges[0].state === 'open')
    await until(() => between.proxy.open > 0)

    await world.cohorts.cancel(run)
    const { db } = world.on.api.database
    const readRemaining = async () => {
      const leases = await db
        .selectFrom('lease')
        .innerJoin('cohort_stage', 'cohort_stage.id', 'lease.subject_id')
        .select('lease.token')
        .where('cohort_stage.cohort_id', '=', run.cohort_id)
        .where('lease.state', '=', 'active')
        .execute()
      const stores = [producer, consumer].map(({ parts }) => parts.edges.store.usedBytes)
      return {
        sockets: between.proxy.open,
        leases: leases.length,
        files: await files(),
        held: stores[0]! + stores[1]!,
        work: consumer.parts.work.size,
      }
    }
    const nothing = { sockets: 0, leases: 0, files: [], held: 0, work: 0 }
    // Shorter than the idle timeout of a transfer, so only the cancellation can have ended it.
    const deadline = performance.now() + SOON_MS
    while (!isDeepStrictEqual(await readRemaining(), nothing) && performance.now() < deadline) await sleep(50)
    assert.deepEqual(await readRemaining(), nothing)

    assert.equal((await world.cohorts.summary(run)).status, 'cancelled')
    const relayed = world.on.api.services.objects.list(`cohorts/${world.on.accountId}/`)
    assert.deepEqual(await Array.fromAsync(relayed), [])
  })

  it('falls back to the object store when the producer is unreachable, and the next hand-over does so right away', async () => {
    const [closed = 0] = await freePorts(1)
    using _advertised = advertise(closed)
    const probed: EdgeCall[] = []
    using _watched = beforeEdgeCalls(consumer, (call) => {
      if (call.verb === 'rendezvous' && call.body['probes']) probed.push(call)
    })

    const run = await start()
    const first = await world.succeeded(run)
    const types = (await world.cohorts.events(run)).map(({ type }: AnyBody) => type)
    const second = await world.succeeded(await start())

    assert.deepEqual([first.edge.transport, first.edge.attempt], ['relay', 1])
    assert.deepEqual(attemptsIn(first.seen), ONCE)
    assert.ok(types.includes('edge.relayed'), types.join())
    assert.equal(second.edge.transport, 'relay')
    assert.equal(probed.length, 1, 'the result for this pair of nodes must be remembered')
    await until(async () => (await files()).length === 0)
  })
})
