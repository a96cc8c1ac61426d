import assert from 'node:assert/strict'
import { pino } from 'pino'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { SleepRam } from '../../../node-runtime/memory/ram.ts'
import { MemoryReservations } from '../../../node-runtime/memory/reservations.ts'
import { LoadedModel } from '../../../node-runtime/models/loaded-model.ts'
import { Pins } from '../../../node-runtime/models/pins.ts'
import type { ModelServer } from '../../../node-runtime/models/server.ts'
import { Sleeper } from '../../../node-runtime/models/sleeper.ts'

describe('the RAM for sleeping models', () => {
  it('is a share of the machine, of which a tenth stays free for other work', async () => {
    let freeMb = 1_000
    const ram = new SleepRam({ totalMb: 1_000, pct: 50, freeMb: async () => freeMb })

    assert.deepEqual([ram.couldHold(500), ram.couldHold(501)], [true, false])
    assert.deepEqual([await ram.fits(200, 300), await ram.fits(200, 301)], [true, false])
    freeMb = 299
    assert.equal(await ram.fits(200, 0), false)
    freeMb = 300
    assert.equal(await ram.fits(200, 0), true)
  })

  it('holds no model with a share of 0', () => {
    assert.equal(new SleepRam({ totalMb: 1_000, pct: 0 }).couldHold(1), false)
  })

  it('is freed when the machine is short of RAM: the least recently used model first, and no more than needed', async () => {
    let freeMb = 20
    const pins = new Pins()
    const models = ['newer', 'older', 'waking'].map((key, age) => {
      const model = new LoadedModel(key, 'evicted', pins)
      model.sleeping = { server: {} as ModelServer, awakeMb: 100 }
      model.lastUsed = -age
      return model
    })
    models[2]!.loading = Promise.resolve()
    const stopped: string[] = []
    const sleeper = new Sleeper({
      models: () => models,
      memory: new MemoryReservations(1_000),
      meter: memoryMeter({ hardware: 'cpu', gpus: [] }),
      ram: new SleepRam({ totalMb: 1_000, pct: 50, freeMb: async () => freeMb }),
      pins,
      evict: async (model) => {
        model.sleeping = undefined
        stopped.push(model.modelKey)
        freeMb += 100
      },
      onMove: () => {},
      stopping: new AbortController().signal,
      log: pino({ level: 'silent' }),
    })

    await sleeper.relieve()
    await sleeper.relieve()

    assert.deepEqual(stopped, ['older'])
  })
})
