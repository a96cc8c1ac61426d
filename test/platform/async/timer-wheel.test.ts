import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { TimerWheel, type WheelTimer } from '../../../platform/async/timer-wheel.ts'
import { until } from '../../support/assertions/until.ts'

describe('timer wheel', () => {
  it('fires timers when they are due, in order, except cancelled ones', async () => {
    using wheel = new TimerWheel(10)
    const startedAt = performance.now()
    const heard: [string, number][] = []
    const hear = (what: string) => () => void heard.push([what, performance.now() - startedAt])
    wheel.add(60, hear('second'))
    wheel.add(20, hear('first'))
    wheel.cancel(wheel.add(30, hear('never')))

    await until(() => heard.length === 2)
    // The cancelled timers would have been due in between.
    assert.deepEqual(
      heard.map(([what]) => what),
      ['first', 'second'],
    )
    assert.ok(heard[0]![1] >= 20 && heard[1]![1] >= 60)
  })

  it('does not fire a timer that another one in the same tick cancels', async () => {
    using wheel = new TimerWheel(10)
    const heard: string[] = []
    let other: WheelTimer | undefined
    wheel.add(20, () => {
      heard.push('first')
      wheel.cancel(other!)
    })
    other = wheel.add(20, () => heard.push('other'))
    wheel.add(40, () => heard.push('last'))

    await until(() => heard.includes('last'))

    assert.deepEqual(heard, ['first', 'last'])
  })

  it('never fires early, even when the loop is late and a tick begins just after the timer was added', async () => {
    const spin = (isOver: () => boolean) => {
      while (!isOver());
    }
    using wheel = new TimerWheel(10)
    spin(() => performance.now() % 10 > 8)
    const addedAt = performance.now()
    const called = new Promise<void>((resolve) => wheel.add(20, resolve))
    spin(() => performance.now() - addedAt > 13)

    await called

    assert.ok(performance.now() - addedAt >= 20)
  })

  it('accepts new timers after it has become empty', async () => {
    using wheel = new TimerWheel(10)
    for (let round = 0; round < 3; round++) {
      await new Promise<void>((resolve) => wheel.add(15, resolve))
      await sleep(30)
    }
  })
})
