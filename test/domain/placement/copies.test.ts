import assert from 'node:assert/strict'
import { randomNumbers } from '../../../bench/random-numbers.ts'
import {
  type CopyDemand,
  type CopyScale,
  type CopyTarget,
  decideCopies,
  NO_COPIES,
} from '../../../domain/placement/copies.ts'

const TICK_S = 2
const CONCURRENCY = 4

const buildWant = (overrides: Partial<CopyTarget> = {}): CopyTarget => ({
  min: 0,
  minBy: 'min',
  max: 8,
  idleTimeoutS: 60,
  ...overrides,
})

interface Step {
  /** Seconds since the start of the simulation. */
  readonly at: number
  readonly copies: number
  readonly reason: string
}

/**
 * Simulates nodes that load a copy in `loadS` seconds, and `clientsAt(s)` clients with one request each. Returns the
 * changes and the peak number of loaded copies.
 */
function simulate(
  clientsAt: (s: number) => number,
  { want = buildWant(), forS = 3_600, loadS = 10, serviceMs = 500 } = {},
): { steps: Step[]; most: number; requestSeconds: number } {
  const steps: Step[] = []
  let scale: CopyScale = NO_COPIES
  let loaded: number[] = []
  let most = 0
  let requestSeconds = 0
  for (let s = 0; s < forS; s += TICK_S) {
    const ready = loaded.filter((at) => at <= s).length
    const clients = clientsAt(s)
    const inFlight = Math.min(clients, ready * CONCURRENCY)
    const demand: CopyDemand = { inFlight, waiting: clients - inFlight, serviceMs }
    requestSeconds += clients * TICK_S
    const { scale: next, reason } = decideCopies(
      want,
      { loaded: ready, loading: loaded.length - ready, concurrency: CONCURRENCY, loadS },
      { demand, before: scale, now: s * 1_000, elapsedS: TICK_S },
    )
    scale = next
    if (reason !== undefined) steps.push({ at: s, copies: scale.copies, reason })
    while (loaded.length < scale.copies) loaded.push(s + loadS)
    loaded = loaded.slice(0, scale.copies)
    most = Math.max(most, scale.copies)
  }
  return { steps, most, requestSeconds }
}
const copiesOf = (steps: readonly Step[]) => steps.map(({ copies }) => copies)

describe('the number of loaded copies of a model', () => {
  it('follows a load of 0, 24, 0 clients up and down without overshoot', () => {
    const { steps } = simulate((s) => (s >= 100 && s < 1_000 ? 24 : 0))

    assert.deepEqual(copiesOf(steps), [1, 2, 4, 6, 0])
    assert.match(
      steps[1]!.reason,
      /^4 requests in flight and 20 waiting for 1 copy with up to 4 each: .* cost more than a load of 10 s$/,
    )
    const [last] = steps.slice(-1)
    assert.ok(last!.at - 1_000 >= 58 && last!.at - 1_000 <= 64, String(last!.at))
    assert.match(last!.reason, /^no request for 60 s$/)
  })

  it('stays the same while waiting costs less than loading', () => {
    // One excess request for a tenth of the time that a load takes.
    const burst = (s: number) => (s % 60 < TICK_S ? CONCURRENCY + 1 : CONCURRENCY)

    assert.deepEqual(copiesOf(simulate(burst, { loadS: 30 }).steps), [1])
  })

  it('grows once one excess request has waited as long as a load takes', () => {
    const { steps } = simulate(() => CONCURRENCY + 1, { forS: 200, loadS: 30 })

    assert.deepEqual(copiesOf(steps), [1, 2])
    // The first copy takes 30 s to load.
    assert.equal(steps[1]!.at, 58)
  })

  it('does not flap when the load oscillates faster than the idle timeout', () => {
    const wave = (s: number) => (s % 100 < 50 ? 16 : 1)

    const { steps } = simulate(wave, { want: buildWant({ idleTimeoutS: 120 }), forS: 36_000 })

    assert.deepEqual(copiesOf(steps), [1, 2, 4])
  })

  it('keeps a new copy for at least its load time, even with a shorter idle timeout', () => {
    const { steps } = simulate((s) => (s < 100 ? 8 : 1), {
      want: buildWant({ idleTimeoutS: 10 }),
      loadS: 60,
    })

    assert.deepEqual(copiesOf(steps), [1, 2, 1])
    const [, added, givenUp] = steps
    assert.ok(givenUp!.at - added!.at >= 2 * 60 - 2 * TICK_S, `${givenUp!.at - added!.at} s`)
  })

  it('keeps a copy that the next request would need', () => {
    // A copy is released only if the load fits in 80% of the remaining slots: 0.8 × 4 slots hold three requests, not
    // four.
    assert.deepEqual(copiesOf(simulate((s) => (s < 300 ? 8 : 4)).steps), [1, 2])
    assert.deepEqual(copiesOf(simulate((s) => (s < 300 ? 8 : 3)).steps), [1, 2, 1])
  })

  it('stays within min and max for every load and setting', () => {
    for (let round = 0; round < 300; round++) {
      const random = randomNumbers(round)
      const min = Math.floor(random() * 4)
      const max = Math.max(1, min) + Math.floor(random() * 5)
      const idleTimeoutS = Math.floor(random() * 100)
      const target = random()
      const want = buildWant({
        min,
        max,
        idleTimeoutS,
        ...(target < 0.3 && { targetInFlight: 1 + Math.floor(random() * 10) }),
        ...(target > 0.7 && { targetWaitMs: 1 + Math.floor(random() * 2_000) }),
      })
      const levels = Array.from({ length: 10 }, () => Math.floor(random() * random() * 100))
      const loadS = 1 + Math.floor(random() * 60)
      const { steps } = simulate((s) => levels[Math.floor(s / 200) % 10]!, { want, forS: 2_000, loadS })

      for (const [i, { at, copies }] of steps.entries()) {
        assert.ok(copies >= min && copies <= max, `round ${round}: ${copies} copies`)
        const before = steps[i - 1]
        if (!before || copies > before.copies) continue
        assert.ok(
          at - before.at >= Math.max(idleTimeoutS, loadS),
          `round ${round}: given up after ${at - before.at} s`,
        )
      }
      if (idleTimeoutS === 0)
        for (const [i, { copies }] of steps.entries()) assert.ok(copies > (steps[i - 1]?.copies ?? -1))
    }
  })

  it('follows the target requests or target wait that an endpoint sets', () => {
    const most = (want: Partial<CopyTarget>) => simulate(() => 12, { want: buildWant(want), forS: 400 }).most

    assert.equal(most({}), 3)
    assert.equal(most({ targetInFlight: 12 }), 1)
    assert.equal(most({ targetInFlight: 2 }), 6)
    // Each copy serves four requests at a time in 0.5 s, so 12 requests on two copies wait at most 0.25 s.
    assert.equal(most({ targetWaitMs: 250 }), 2)
    assert.equal(most({ targetWaitMs: 200 }), 3)
  })

  it('follows new limits at once', () => {
    const at = (want: CopyTarget, copies: number, clients: number) =>
      decideCopies(
        want,
        { loaded: copies, loading: 0, concurrency: CONCURRENCY, loadS: 10 },
        {
          demand: { inFlight: clients, waiting: 0, serviceMs: 100 },
          before: { ...NO_COPIES, copies },
          now: 0,
          elapsedS: TICK_S,
        },
      )

    assert.deepEqual(
      [
        at(buildWant({ min: 3 }), 1, 0),
        at(buildWant({ min: 3, minBy: 'schedule' }), 1, 0),
        at(buildWant({ max: 2 }), 5, 20),
      ].map(({ scale, reason }) => [scale.copies, reason]),
      [
        [3, 'at least 3 copies are wanted'],
        [3, 'at least 3 copies are wanted by the schedule'],
        [2, 'at most 2 copies are wanted'],
      ],
    )
  })
})
