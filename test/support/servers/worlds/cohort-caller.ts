import assert from 'node:assert/strict'
import type { RunRequest } from '../../../../schemas/cohorts/cohort.ts'
import type { PlanRequest } from '../../../../schemas/cohorts/plan.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { until } from '../../assertions/until.ts'
import { type AnyBody, OPERATIONS_KEY } from '../api.ts'
import type { InferenceWorld } from './inference-world.ts'

const ENDED = ['succeeded', 'failed', 'cancelled']

export interface CohortTask {
  task_id: string
  cohort_id: string
}

/** Runs and reads the cohorts of a world's account. */
export class CohortCaller {
  readonly #world: InferenceWorld

  constructor(world: InferenceWorld) {
    this.#world = world
  }

  async call(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<{ status: number; body: AnyBody; text: string }> {
    const { api, key, accountId } = this.#world
    const headers = { 'x-account-id': accountId, 'x-user-id': 'someone' }
    return api.call(method, path, { key, headers, ...(body && { body }) })
  }

  /** Runs a graph, or a plan by its id. */
  async run(
    plan: PlanRequest | string,
    input: object = {},
    more: Partial<RunRequest> = {},
  ): Promise<CohortTask> {
    const which = typeof plan === 'string' ? { plan_id: plan } : { plan }
    const { status, body } = await this.call('POST', '/api/v1/cohorts:run', { ...which, input, ...more })
    assert.equal(status, 202, JSON.stringify(body))
    return body as CohortTask
  }

  async summary({ task_id }: Pick<CohortTask, 'task_id'>): Promise<AnyBody> {
    return (await this.call('GET', `/api/v1/tasks/${task_id}/cohort`)).body
  }

  async stage(run: CohortTask, name: string): Promise<AnyBody> {
    return (await this.summary(run)).stages.find(({ stage_id }: AnyBody) => stage_id === name)
  }

  async ended(run: CohortTask, timeoutMs = 120_000): Promise<AnyBody> {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await this.summary(run)
      return ENDED.includes(seen.status)
    }, timeoutMs)
    return seen
  }

  async result({ task_id }: CohortTask): Promise<AnyBody> {
    return (await this.#world.task(task_id)).result
  }

  async cancel({ task_id }: CohortTask): Promise<void> {
    const { status, body } = await this.call('POST', `/api/builder/v1/tasks/${task_id}:cancel`)
    assert.equal(status, 200, JSON.stringify(body))
  }

  async events({ task_id }: CohortTask): Promise<AnyBody[]> {
    return (await this.call('GET', `/api/v1/tasks/${task_id}/cohort/events?limit=500`)).body.events
  }

  /** Returns the ledger entries of a run, as an operator reads them. */
  async bookings({ task_id }: CohortTask): Promise<AnyBody> {
    const headers = { 'x-api-key': OPERATIONS_KEY }
    const path = `/api/v1/admin/audit/task/${task_id}`
    const { status, body } = await this.#world.api.call('GET', path, { headers })
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }

  workflow({ cohort_id }: CohortTask) {
    return this.#world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(cohort_id))
  }
}

/** Returns the status and the attempts of each stage. */
export const attemptsIn = ({ stages }: AnyBody): Record<string, string> =>
  Object.fromEntries(
    stages.map(({ stage_id, status, attempt }: AnyBody) => [stage_id, `${status} ${attempt}`]),
  )
