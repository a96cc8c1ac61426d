import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import type { WorkflowHandle } from '@temporalio/client'
import type { EndpointRow } from '../../../db/tables/models.ts'
import type { AnyBody } from '../servers/api.ts'
import { until } from '../servers/nodes/node.ts'
import type { InferenceWorld } from '../servers/worlds/inference-world.ts'

const HISTORIES = new URL('../../histories/', import.meta.url)

/** Shared helpers for tests of tasks. */
export class TaskProbe {
  readonly #world: () => InferenceWorld

  constructor(world: () => InferenceWorld) {
    this.#world = world
  }

  /** Queues a task; returns its id. */
  async queue(endpoint: EndpointRow, input: object): Promise<string> {
    return (await this.#world().infer(endpoint, { input, sync: false })).body.task_id
  }

  /** Waits until a task ends, and asserts its status. */
  async ended(id: string, status = 'succeeded'): Promise<AnyBody> {
    await until(async () => ['succeeded', 'failed'].includes((await this.#world().task(id)).status))
    const task = await this.#world().task(id)
    assert.equal(task.status, status, task.error)
    return task
  }

  /** Waits until the task's workflow is closed; returns its status. */
  async closed(id: string): Promise<string> {
    const status = async () => (await this.#world().workflow(id).describe()).status.name
    await until(async () => (await status()) !== 'RUNNING')
    return status()
  }

  /** Returns the kinds of a task's ledger entries, and asserts that the entries sum to zero. */
  async bookings(id: string): Promise<string[]> {
    const lines = await this.#world()
      .api.database.db.selectFrom('ledger_line')
      .select(['kind', 'amount_micro'])
      .where('task_id', '=', id)
      .execute()
    assert.equal(
      lines.reduce((sum, line) => sum + line.amount_micro, 0),
      0,
    )
    return [...new Set(lines.map(({ kind }) => kind))].toSorted()
  }

  async events(id: string): Promise<string[]> {
    const { db } = this.#world().api.database
    const rows = await db.selectFrom('event').select('type').where('resource_id', '=', id).execute()
    return rows.map(({ type }) => type)
  }

  /** Returns the current details of the task's workflow. */
  async details(id: string): Promise<string> {
    const metadata = await this.#world()
      .workflow(id)
      .query<{ currentDetails?: string }>('__temporal_workflow_metadata')
      .catch(() => undefined)
    return metadata?.currentDetails ?? ''
  }

  /** Records a history for the replay test if requested. */
  async record(name: string, workflow: WorkflowHandle): Promise<void> {
    if (!process.env.HEARTH_RECORD_HISTORIES) return
    await mkdir(HISTORIES, { recursive: true })
    await writeFile(new URL(`${name}.json`, HISTORIES), JSON.stringify(await workflow.fetchHistory()))
  }
}
