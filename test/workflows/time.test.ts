import assert from 'node:assert/strict'
import { after, before, describe, it } from 'mocha'
import { attemptDueAt } from '../../domain/webhooks/schedule.ts'
import { MAX_HISTORY } from '../../workflows/contract/policy.ts'
import { startSkippingTemporal } from '../support/servers/temporal-time.ts'
import type { SkippingTemporal } from '../support/servers/temporal-time.ts'
import { skipBecause } from '../support/skip.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const SLACK_MS = 5 * SECOND

describe('a workflow that waits for hours', () => {
  let temporal: SkippingTemporal

  before(async function () {
    const started = await startSkippingTemporal()
    if ('missing' in started) return skipBecause(this, started.missing)
    temporal = started
  })
  after(() => temporal?.[Symbol.asyncDispose]())

  it('makes the eight delivery attempts at 0 s, 30 s, 2 min, 10 min, 1 h, 6 h, 24 h and 36 h (6.4.3)', async () => {
    const createdAt = await temporal.now()
    // The dispatch made the first attempt.
    const made = [createdAt]

    await temporal.run('webhookDelivery', [{ deliveryId: 'd' }], {
      async planWebhookAttempt() {
        const now = made.at(-1) ?? createdAt
        const attempt = made.length + 1
        const at = attemptDueAt({ createdAt, attempt, now, random: 0 })
        return at === undefined ? { state: 'ended' } : { state: 'due', attempt, at, lastError: 'status_503' }
      },
      attemptWebhook: async () => void made.push(await temporal.now()),
    })

    const planned = [0, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR, 36 * HOUR]
    assertNear(
      made.map((at) => at - createdAt),
      planned,
    )
  })

  it('removes the files of a deleted dataset however long the object store is unavailable', async () => {
    let tries = 0

    await temporal.run('datasetRemoval', [{ datasetId: 'd' }], {
      async removeDatasetFiles() {
        if (++tries < 100) throw new Error('the object store does not answer')
      },
    })

    assert.equal(tries, 100)
  })

  it('challenges a destination at 0 s, 30 s, 2 min and 10 min and then leaves it unverified (6.3)', async () => {
    const startedAt = await temporal.now()
    const challenged: number[] = []
    const failed: unknown[] = []

    const outcome = await temporal.run('webhookVerification', [{ endpointId: 'e', version: 3 }], {
      async challengeWebhook() {
        challenged.push((await temporal.now()) - startedAt)
        return 'unanswered'
      },
      failWebhookVerification: async (...which: unknown[]) => void failed.push(which),
    })

    assertNear(challenged, [0, 30 * SECOND, 2 * MINUTE, 10 * MINUTE])
    assert.deepEqual(failed, [['e', 3]])
    assert.equal(outcome, 'failed')
  })

  it('stops challenging once the destination has answered', async () => {
    let challenges = 0

    const outcome = await temporal.run('webhookVerification', [{ endpointId: 'e', version: 1 }], {
      challengeWebhook: async () => (++challenges === 2 ? 'verified' : 'unanswered'),
      failWebhookVerification: () => assert.fail('the endpoint was verified'),
    })

    assert.deepEqual([outcome, challenges], ['verified', 2])
  })

  it("searches for nodes for all of a cohort's stages together, rarely enough that a day fits into one history", async () => {
    const deadlineAt = (await temporal.now()) + 24 * HOUR
    const STAGES = 63
    let [looks, calls] = [0, 0]
    let fault: string | undefined
    await assert.rejects(
      temporal.run('cohortRun', [{ cohortId: 'c' }], {
        openCohort: async () => ({
          ended: false,
          accountId: 'a',
          name: 'patient',
          deadlineAt,
          stages: Array.from({ length: STAGES }, (_, i) => ({
            id: `${i}`,
            name: `stage-${i}`,
            producers: [],
            isOutput: true,
            isDone: false,
          })),
        }),
        async callStage() {
          calls += 1
          return { verdict: 'waits', why: 'no node' }
        },
        async findRoom({ stages }: { stages: unknown[] }) {
          looks += 1
          assert.equal(stages.length, STAGES)
          return []
        },
        endCohort: async ({ ending }: { ending: { fault?: { code: string } } }) =>
          void (fault = ending.fault?.code),
      }),
    )

    assert.equal(fault, 'deadline_exceeded')
    // Each stage is called once per execution, and nothing runs, so a long execution continues as new.
    assert.equal(calls % STAGES, 0)
    // A search is a timer that is set and fires, a workflow task of three events, and a marker.
    assert.ok(looks > 1_000 && looks * 6 < MAX_HISTORY / 2, `${looks} looks`)
  })
})

/** Asserts equality, except for the time it takes to start an activity. */
function assertNear(actual: number[], expected: number[]): void {
  const message = `${actual.join(', ')} instead of ${expected.join(', ')}`
  assert.equal(actual.length, expected.length, message)
  for (const [i, at] of actual.entries()) {
    const late = at - (expected[i] ?? Number.NaN)
    assert.ok(late >= -SLACK_MS && late < SLACK_MS, message)
  }
}
