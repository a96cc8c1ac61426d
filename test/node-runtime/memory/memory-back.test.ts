import assert from 'node:assert/strict'
import { pino } from 'pino'
import {
  MemoryAllocator,
  NotEnoughMemoryError,
  type MemoryTimeouts,
} from '../../../node-runtime/memory/allocator.ts'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { MemoryReservations } from '../../../node-runtime/memory/reservations.ts'
import { LoadedModel } from '../../../node-runtime/models/loaded-model.ts'
import { Pins } from '../../../node-runtime/models/pins.ts'
import type { ModelServer } from '../../../node-runtime/models/server.ts'
import { until } from '../../support/assertions/until.ts'

const FOR_EVER = 60_000

/**
 * Returns an allocator of 100 MB in which one idle model uses 80 MB. Its meter returns these values, then repeats the
 * last one.
 */
function roomWith(answers: (boolean | undefined)[], patience: Partial<MemoryTimeouts> = {}) {
  const memory = new MemoryReservations(100)
  const model = new LoadedModel('old', 'idle', new Pins())
  const calls: string[] = []
  let pids = [4_194_301]
  model.server = {
    pids: async () => pids,
    stop: async () => {
      calls.push('stopped')
      pids = []
    },
  } as unknown as ModelServer
  model.memoryMb = 80
  memory.reserve('old', 80)
  const lines: string[] = []
  const room = new MemoryAllocator({
    memory,
    meter: {
      ...memoryMeter({ hardware: 'cpu', gpus: [] }),
      isBack: async (looked) => {
        const answer = answers.length > 1 ? answers.shift() : answers[0]
        calls.push(`${looked.join()} is back: ${answer}; held: ${memory.heldBy('old')}`)
        return answer
      },
    },
    log: pino({ level: 'error' }, { write: (line: string) => void lines.push(line) }),
    models: () => [model],
    onMove: (moved, state) => {
      moved.state = state
      calls.push(state)
    },
    timeouts: { pollMs: 5, alarmMs: FOR_EVER, unknownMs: FOR_EVER, waitMs: FOR_EVER, ...patience },
  })
  return { room, memory, model, calls, lines }
}

describe("an evicted model's memory", () => {
  it('stays reserved until it is confirmed free, and the next load starts only then', async () => {
    const { room, memory, model, calls, lines } = roomWith([false, false, true])

    await room.reserve('new', 90)

    assert.deepEqual(calls, [
      'evicted',
      'stopped',
      '4194301 is back: false; held: 80',
      '4194301 is back: false; held: 80',
      '4194301 is back: true; held: 80',
    ])
    assert.deepEqual([memory.heldBy('old'), model.memoryMb, memory.freeMb], [0, 0, 10])
    assert.deepEqual(lines, [])
  })

  it('is reported while it is awaited, and logged for operators at growing intervals', async () => {
    const { room, model, lines, calls } = roomWith([false], { alarmMs: 20, waitMs: 500 })

    await assert.rejects(room.reserve('new', 90), NotEnoughMemoryError)

    assert.deepEqual(model.report(), { model_key: 'old', state: 'evicted', in_flight: 0, memory_mb: 80 })
    assert.ok(lines.length >= 2 && lines.length <= 5, lines.join(''))
    assert.match(lines[0] ?? '', /"model_key":"old".*"pids":\[4194301\].*has not been freed/)
    assert.ok(calls.length > lines.length)
  })

  it('is never reassigned while it is seen in use, and a load that needs it fails with the reason', async () => {
    const { room, memory, model } = roomWith([false], { unknownMs: 10, waitMs: 100 })

    await assert.rejects(room.reserve('new', 90), /the memory of old, which has stopped, has not been freed/)
    await assert.rejects(room.whenGone(model), NotEnoughMemoryError)
    const missing = await room.reserveUpTo('job', 90)

    assert.deepEqual([memory.heldBy('old'), memory.heldBy('new'), missing], [80, 0, 70])
  })

  it('counts as missing for a job that starts without it', async () => {
    const { room, memory } = roomWith([false], { waitMs: 50 })

    const missing = await room.reserveUpTo('job', 90)

    assert.deepEqual([missing, memory.heldBy('old'), memory.heldBy('job')], [70, 80, 90])
  })

  it("does not block a node indefinitely when it can't be measured", async () => {
    const { room, memory, lines, calls } = roomWith([undefined], { unknownMs: 100 })

    await room.reserve('new', 90)

    assert.equal(memory.heldBy('old'), 0)
    assert.ok(calls.filter((call) => call.endsWith('undefined; held: 80')).length > 2, calls.join('\n'))
    assert.equal(lines.length, 1)
    assert.match(lines[0] ?? '', /cannot determine .* assuming that it has/)
  })

  it('is awaited again when the driver recovers', async () => {
    const { room, calls } = roomWith([undefined, false, undefined, true], { unknownMs: 2_000 })

    await room.reserve('new', 90)

    assert.equal(calls.length, 6)
  })

  it('stays reserved, with its model loaded, when the server could not be stopped', async () => {
    const { room, memory, model, calls } = roomWith([true])
    const server = { pids: () => Promise.reject(new Error('the engine is away')) } as unknown as ModelServer
    model.server = server

    await assert.rejects(room.reserve('new', 90), /the engine is away/)

    await until(() => model.leaving === undefined)
    assert.deepEqual([memory.heldBy('old'), memory.heldBy('new')], [80, 0])
    assert.deepEqual([model.server, model.state, calls], [server, 'idle', ['evicted', 'idle']])
  })
})
