import assert from 'node:assert/strict'
import { request } from 'undici'
import type { PlanRequest } from '../../schemas/cohorts/plan.ts'
import { eventually } from '../support/assertions/until.ts'
import type { AnyBody } from '../support/servers/api.ts'
import type { TestPlatform } from '../support/servers/platform.ts'
import type { ChatModel } from './chats.ts'
import { persistently } from './work.ts'

const ENDED = ['succeeded', 'failed', 'cancelled']
/** The default duration of each stage of `chain`. */
export const STAGE_MS = 2_000

/** Returns a graph of three stages, each of which passes its output to the next. */
export function chain({ endpointId }: ChatModel, stageMs = STAGE_MS): PlanRequest {
  const input = { messages: [{ role: 'user', content: '' }], fake: { delay_ms: stageMs } }
  const names = ['first', 'second', 'third']
  return {
    name: 'chain',
    stages: names.map((stage_id) => ({ stage_id, endpoint_id: endpointId, input })),
    edges: names.map((stage_id, i) => ({
      from:
        i === 0
          ? { stage_id: 'input', path: '/text' }
          : { stage_id: names[i - 1]!, path: '/choices/0/message/content' },
      to: { stage_id, path: '/messages/0/content' },
    })),
  }
}

/** A platform's cohorts, for a caller whose requests may fail for a while. */
export class Cohorts {
  readonly #platform: TestPlatform

  constructor(platform: TestPlatform) {
    this.#platform = platform
  }

  run(plan: PlanRequest, text: string): Promise<string> {
    return persistently('the platform', () => this.accept(plan, text))
  }

  /** Starts a run with one request; returns its task. */
  async accept(plan: PlanRequest, text: string): Promise<string> {
    return (await this.#call('/cohorts:run', { plan, input: { text } })).task_id
  }

  summary(taskId: string): Promise<AnyBody> {
    return persistently('the summary', () => this.#call(`/tasks/${taskId}/cohort`))
  }

  async events(taskId: string): Promise<AnyBody[]> {
    return (await this.#call(`/tasks/${taskId}/cohort/events?limit=500`)).events
  }

  begun(taskId: string, stage = 0): Promise<boolean> {
    return eventually('its start', async () => {
      const { stages } = await this.summary(taskId)
      return stages[stage].status === 'running' || undefined
    })
  }

  ended(taskId: string): Promise<AnyBody> {
    return eventually(
      'its end',
      async () => {
        const now = await this.summary(taskId)
        return ENDED.includes(now.status) ? now : undefined
      },
      180_000,
    )
  }

  bookings(taskId: string): Promise<AnyBody> {
    return this.#call(`/admin/audit/task/${taskId}`, undefined, this.#platform.ready.operations_key)
  }

  async #call(path: string, body?: object, key = this.#platform.ready.api_key): Promise<AnyBody> {
    const answer = await request(`${this.#platform.ready.base_url}/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {
        'content-type': 'application/json',
        'x-api-key': key,
        'x-account-id': this.#platform.ready.account_id,
        'x-user-id': 'a-tester',
      },
      body: body ? JSON.stringify(body) : null,
    })
    const text = await answer.body.text()
    assert.ok(answer.statusCode < 300, `${path}: ${answer.statusCode} ${text}`)
    return JSON.parse(text)
  }
}

/** Asserts that each of the three stages was held, captured and paid out once, and nothing was refunded. */
export async function assertPaidOnce(cohorts: Cohorts, taskId: string): Promise<void> {
  const { entries, sums } = await cohorts.bookings(taskId)
  assert.equal(sums.total_micro, 0)
  assert.deepEqual(
    ['hold', 'capture', 'payout', 'refund'].map(
      (wanted) => entries.filter(({ kind }: AnyBody) => kind === wanted).length,
    ),
    [6, 6, 6, 0],
  )
}
