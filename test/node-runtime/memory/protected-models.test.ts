import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { MemoryAllocator, NotEnoughMemoryError } from '../../../node-runtime/memory/allocator.ts'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { MemoryReservations } from '../../../node-runtime/memory/reservations.ts'
import { LoadedModel } from '../../../node-runtime/models/loaded-model.ts'
import { Pins } from '../../../node-runtime/models/pins.ts'
import type { ModelServer } from '../../../node-runtime/models/server.ts'

/** Returns an allocator of 100 MB in which each model uses `mb` and has just finished a load of `loadMs`. */
function nodeWith(loads: Record<string, { mb: number; loadMs: number }>) {
  const memory = new MemoryReservations(100)
  const pins = new Pins()
  const evicted: string[] = []
  const add = (key: string, { mb, loadMs }: { mb: number; loadMs: number }) => {
    const model = new LoadedModel(key, 'idle', pins)
    model.server = {
      pids: async () => [],
      stop: async () => void evicted.push(key),
    } as unknown as ModelServer
    model.memoryMb = mb
    model.protect(loadMs)
    memory.reserve(key, mb)
    return model
  }
  const models = new Map(Object.entries(loads).map(([key, load]) => [key, add(key, load)]))
  const moves: string[] = []
  const waits: { holder: string; model_keys: string[]; wait_ms: number }[] = []
  const allocator = new MemoryAllocator({
    memory,
    meter: memoryMeter({ hardware: 'cpu', gpus: [] }),
    log: pino({ level: 'info' }, { write: (line: string) => void waits.push(JSON.parse(line)) }),
    models: () => models.values(),
    onMove: (model, state) => {
      model.state = state
      moves.push(`${model.modelKey} ${state}`)
    },
    timeouts: { pollMs: 5, alarmMs: 60_000, unknownMs: 60_000, waitMs: 60_000 },
  })
  const modelOf = (key: string) => models.get(key)!
  return { allocator, memory, pins, models, modelOf, add, evicted, moves, waits }
}

/** Returns how many milliseconds a promise takes to settle. */
async function timeOf(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work
  return performance.now() - startedAt
}

describe('protection of a recently loaded model', () => {
  it('spares the model if evicting older ones suffices, even if they were used more recently', async () => {
    const { allocator, modelOf, evicted, waits } = nodeWith({
      old: { mb: 40, loadMs: 0 },
      young: { mb: 40, loadMs: 60_000 },
    })
    modelOf('old').lastUsed = modelOf('young').lastUsed + 1_000

    await allocator.reserve('new', 60)

    assert.deepEqual([evicted, waits], [['old'], []])
  })

  it('ends once the model has been loaded for as long as its load took, and a waiting load is logged once', async () => {
    const { allocator, memory, evicted, waits } = nodeWith({
      first: { mb: 40, loadMs: 600 },
      second: { mb: 40, loadMs: 60_000 },
    })

    const reserved = timeOf(allocator.reserve('new', 60))
    await sleep(50)

    assert.deepEqual([evicted, memory.heldBy('new'), memory.freeMb], [[], 0, 20])
    const ms = await reserved
    assert.ok(ms >= 550 && ms < 10_000, `${ms} ms`)
    assert.deepEqual([evicted, memory.heldBy('new'), waits.length], [['first'], 60, 1])
    const [{ holder, model_keys, wait_ms }] = waits as [(typeof waits)[0]]
    assert.deepEqual([holder, model_keys], ['new', ['first']])
    assert.ok(wait_ms > 500 && wait_ms <= 600, `${wait_ms} ms`)
  })

  it('lasts five minutes at most', () => {
    const { modelOf } = nodeWith({ huge: { mb: 80, loadMs: 3_600_000 } })

    const leftMs = modelOf('huge').protectedUntil - performance.now()

    assert.ok(leftMs > 295_000 && leftMs <= 300_000, `${leftMs} ms`)
  })

  it('delays a load only until other memory is free, even while the model is busy', async () => {
    const { allocator, memory, modelOf, evicted } = nodeWith({ young: { mb: 40, loadMs: 60_000 } })
    memory.reserve('job', 40)
    modelOf('young').inFlight = 1

    const denied = assert.rejects(allocator.reserve('early', 60), NotEnoughMemoryError)
    modelOf('young').inFlight = 0
    await denied
    const reserved = timeOf(allocator.reserve('new', 60))
    modelOf('young').inFlight = 1
    await sleep(30)
    memory.release('job')

    assert.ok((await reserved) < 5_000)
    assert.deepEqual(evicted, [])
  })

  it('denies memory to a load if the model is busy at the end of the wait', async () => {
    const { allocator, modelOf, memory, evicted } = nodeWith({ young: { mb: 80, loadMs: 200 } })

    const reserved = allocator.reserve('new', 60)
    modelOf('young').inFlight = 1
    const ms = await timeOf(assert.rejects(reserved, /needs 60 MB; at most 20 MB can be freed/))

    assert.ok(ms >= 150 && ms < 10_000, `${ms} ms`)
    assert.deepEqual([evicted, memory.freeMb], [[], 20])
  })

  it('gives the memory to one of two waiting loads and denies it to the other', async () => {
    const { allocator, memory, models, add, evicted, waits } = nodeWith({ young: { mb: 80, loadMs: 200 } })

    const reserve = (holder: string) => allocator.reserve(holder, 60).then(() => holder)
    const outcomes = await Promise.allSettled(['one', 'two'].map(reserve))
    const [winner = ''] = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const [reason] = outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    assert.ok(reason instanceof NotEnoughMemoryError)
    assert.deepEqual([evicted, memory.heldBy(winner), memory.freeMb], [['young'], 60, 40])

    models.set(winner, add(winner, { mb: 60, loadMs: 200 }))
    await Promise.all([reserve('large'), allocator.reserve('small', 40)])

    assert.deepEqual([memory.heldBy('large'), memory.heldBy('small')], [60, 40])
    assert.deepEqual(
      waits.map(({ holder }) => holder),
      ['one', 'two', 'large'],
    )
  })

  it('keeps the model loaded when the waiting load is aborted', async () => {
    const { allocator, memory, evicted } = nodeWith({ young: { mb: 80, loadMs: 60_000 } })
    const stopping = new AbortController()
    const reason = new Error('this node is stopping')

    const reserved = allocator.reserve('new', 60, { signal: stopping.signal })
    setTimeout(() => stopping.abort(reason), 20)
    const ms = await timeOf(assert.rejects(reserved, reason))

    assert.ok(ms < 5_000, `${ms} ms`)
    assert.deepEqual([evicted, memory.heldBy('new')], [[], 0])
  })

  it('does not apply to jobs and placements', async () => {
    const load = { mb: 80, loadMs: 60_000 }
    const [forJob, byOrder] = [1, 2].map(() => nodeWith({ young: load }))

    assert.equal(await forJob!.allocator.reserveUpTo('job', 60), 0)
    await byOrder!.allocator.evict(byOrder!.modelOf('young'))

    for (const { evicted } of [forJob!, byOrder!]) assert.deepEqual(evicted, ['young'])
  })

  it('also applies to a model being retired', async () => {
    const { allocator, pins, evicted } = nodeWith({ young: { mb: 80, loadMs: 400 } })
    pins.setRetiring(['young'])

    const ms = await timeOf(allocator.reserve('new', 60))

    assert.ok(ms >= 350 && ms < 10_000, `${ms} ms`)
    assert.deepEqual(evicted, ['young'])
  })

  it('is reported with the waiting model while its load is waiting', async () => {
    const { allocator, pins, moves } = nodeWith({ young: { mb: 80, loadMs: 400 } })
    const model = new LoadedModel('new', 'evicted', pins)

    const reserved = allocator.reserve('new', 60, { model })
    const { state, memory_in_ms = 0 } = model.report()

    assert.equal(state, 'loading_model')
    assert.ok(memory_in_ms > 200 && memory_in_ms <= 400, `${memory_in_ms} ms`)
    await reserved
    assert.equal(model.report().memory_in_ms, undefined)
    assert.ok(model.delayMs >= 350 && model.delayMs < 10_000, `${model.delayMs} ms`)
    assert.deepEqual(moves, ['new loading_model', 'young evicted'])
  })
})
