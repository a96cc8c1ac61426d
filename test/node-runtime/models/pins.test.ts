import assert from 'node:assert/strict'
import { Pins } from '../../../node-runtime/models/pins.ts'

describe('pins', () => {
  it("return a model's idle timeout, or the node's by default; 0 means never", () => {
    const [timed, untimed] = [new Pins([], 60), new Pins()]

    for (const pins of [timed, untimed]) pins.setIdleTimeouts({ never: 0, soon: 2 })

    const timesOf = (pins: Pins) => ['never', 'soon', 'other'].map((key) => pins.idleMs(key))
    assert.deepEqual(timesOf(timed), [undefined, 2_000, 60_000])
    assert.deepEqual(timesOf(untimed), [undefined, 2_000, undefined])
    timed.setIdleTimeouts({})
    assert.deepEqual(timesOf(timed), [60_000, 60_000, 60_000])
  })

  it('retire a model without an idle timeout, unless it is pinned', () => {
    const pins = new Pins(['own'])
    pins.setIdleTimeouts({ copy: 0 })
    pins.setAssigned(['assigned'])

    pins.setRetiring(['copy', 'own', 'assigned'])

    const retiring = () => ['copy', 'own', 'assigned', 'other'].filter((key) => pins.isRetiring(key))
    assert.deepEqual([retiring(), pins.idleMs('copy'), pins.idleMs('own')], [['copy'], 0, undefined])
    assert.deepEqual([pins.has('copy'), pins.keys.toSorted()], [false, ['assigned', 'own']])
    pins.setAssigned([])
    assert.deepEqual(retiring(), ['copy', 'assigned'])
    pins.setRetiring([])
    assert.deepEqual([retiring(), pins.idleMs('copy')], [[], undefined])
  })
})
