import assert from 'node:assert/strict'
import { faultOf, scheduledMin } from '../../../domain/placement/copy-schedule.ts'
import {
  copiesByModel,
  type EndpointCopies,
  leastCopies,
  warmWantOf,
} from '../../../domain/placement/copy-wants.ts'

const NOW = new Date('2026-03-04T12:00:00Z')
const buildEndpoint = (overrides: Partial<EndpointCopies> = {}): EndpointCopies => ({
  model_key: 'm',
  runtime_profile: 'tiny',
  memory_mb: 100,
  account_id: 'a',
  is_public: false,
  min_warm: 0,
  min_copies: null,
  max_copies: null,
  target_in_flight: null,
  target_wait_ms: null,
  idle_timeout_s: null,
  schedule: null,
  ...overrides,
})
const byModel = (...endpoints: EndpointCopies[]) =>
  copiesByModel(endpoints, { now: NOW, defaultIdleS: 1_800 })

describe('the number of copies that endpoints want', () => {
  it('is the maximum over the endpoints that share a model', () => {
    const [model, ...others] = byModel(
      buildEndpoint({ min_copies: 1, max_copies: 2, target_in_flight: 9, idle_timeout_s: 60 }),
      buildEndpoint({ min_warm: 3, account_id: 'b' }),
      buildEndpoint({ max_copies: 5, target_in_flight: 4 }),
    )

    assert.deepEqual(others, [])
    assert.equal(model!.account_id, null)
    assert.deepEqual(model!.want, {
      min: 3,
      minBy: 'operators',
      max: 5,
      targetInFlight: 4,
      targetWaitMs: undefined,
      idleTimeoutS: 1_800,
    })
    assert.equal(
      byModel(buildEndpoint({ min_copies: 0, max_copies: 1, idle_timeout_s: 0 }))[0]!.want.idleTimeoutS,
      0,
    )
  })

  it('follows the targets of endpoints that reserve copies when a model is shared', () => {
    const [model] = byModel(
      buildEndpoint({ max_copies: 4, idle_timeout_s: 60 }),
      buildEndpoint({ account_id: 'b', max_copies: 1, target_in_flight: 1, idle_timeout_s: 0 }),
    )

    const { max, targetInFlight, idleTimeoutS } = model!.want
    assert.deepEqual([max, targetInFlight, idleTimeoutS], [4, undefined, 60])
  })

  it('pins copies, except a single copy that only requests need', () => {
    const wants = (min: number, copies: number, max_copies = 4) =>
      warmWantOf(byModel(buildEndpoint({ min_copies: min, max_copies }))[0]!, { copies })
    const [pinned, single, kept, plain] = [
      wants(0, 2),
      wants(0, 1),
      wants(1, 1),
      warmWantOf(byModel(buildEndpoint({ min_warm: 2 }))[0]!, undefined),
    ]

    assert.deepEqual([pinned.nodes, pinned.copies, pinned.isScaled], [2, 2, true])
    assert.deepEqual([single.nodes, single.copies], [0, 1])
    assert.deepEqual([kept.nodes, kept.copies], [1, 1])
    assert.deepEqual([plain.nodes, plain.copies, plain.isScaled], [2, 2, false])
  })

  it('is at least the minimum of the latest schedule entry in its own time zone', () => {
    const schedule = [
      { cron: '0 8 * * 1-5', timezone: 'Europe/Berlin', min: 3 },
      { cron: '0 18 * * 1-5', timezone: 'Europe/Berlin', min: 0 },
    ]
    const at = (time: string) => scheduledMin(schedule, new Date(time))

    assert.equal(at('2026-03-04T06:59:59Z'), 0)
    assert.equal(at('2026-03-04T07:00:00Z'), 3)
    // UTC+2 in summer, so the same local hour comes one hour earlier in UTC.
    assert.equal(at('2026-06-03T06:00:00Z'), 3)
    // Friday evening's entry applies until Monday.
    assert.equal(at('2026-03-08T12:00:00Z'), 0)
    assert.equal(scheduledMin([], NOW), undefined)
  })

  it('is reported with the setting that determines its minimum', () => {
    const schedule = [{ cron: '0 8 * * *', timezone: 'UTC', min: 2 }]
    const least = (overrides: Partial<EndpointCopies>) =>
      leastCopies(buildEndpoint({ min_copies: 1, ...overrides }), NOW)

    assert.deepEqual(least({}), { copies: 1, by: 'min' })
    assert.deepEqual(least({ schedule }), { copies: 2, by: 'schedule' })
    assert.deepEqual(least({ schedule, min_warm: 2 }), { copies: 2, by: 'schedule' })
    assert.deepEqual(least({ schedule, min_warm: 3 }), { copies: 3, by: 'operators' })
  })

  it('cannot be scheduled with an invalid cron expression or time zone', () => {
    const fault = (cron: string, timezone = 'UTC') => faultOf({ cron, timezone, min: 0 })
    const field = (cron: string, timezone?: string) => fault(cron, timezone)?.field

    assert.equal(field('0 8 * * 1-5'), undefined)
    assert.equal(field('@daily'), 'cron')
    assert.equal(field('0 0 8 * * 1'), 'cron')
    assert.match(fault('61 8 * * 1')!.message, /^the minute is not valid: 61$/)
    assert.match(fault('0 8 * * 8')!.message, /^the day of the week is not valid: 8$/)
    assert.match(fault('*/0 8 * * *')!.message, /minute/)
    assert.match(fault('0 8 * *')!.message, /five fields/)
    assert.equal(field('0 8 31 2 *'), 'cron')
    assert.equal(field('0 8 * * 1', 'Mars/Olympus'), 'timezone')
  })
})
