import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import {
  EvidenceStatus,
  Metric,
  Relation,
  SpaceRole,
  SpaceStatus,
  StructuredRunStatus,
} from '../../schemas/cohorts/evaluator.ts'
import { SpaceKind } from '../../schemas/cohorts/vocabulary.ts'
import { DatasetStatus, StorageFormat } from '../../schemas/dataset.ts'
import { EndpointStatus, EndpointVisibility, ReviewStatus } from '../../schemas/endpoint.ts'
import { EvaluationStep } from '../../schemas/evaluation-work.ts'
import { TaskStatus } from '../../schemas/inference-task.ts'
import { MemoryAccess, MemoryOutcome } from '../../schemas/memory.ts'
import {
  HardwarePreference,
  JobEventType,
  OperatingMode,
  TrainingRunStatus,
} from '../../schemas/training-run.ts'
import { WebhookDeliveryStatus } from '../../schemas/webhook.ts'

const FOLDER = new URL('../../db/migrations/', import.meta.url)

/** Returns the values that each CHECK constraint of the schema allows, by `table.column`. */
async function checkedValues(): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  const note = (column: string, values = '') =>
    found.set(
      column,
      values.split(',').map((value) => value.trim().replaceAll("'", '')),
    )
  for (const name of (await readdir(FOLDER)).toSorted()) {
    const text = await readFile(new URL(name, FOLDER), 'utf8')
    for (const [, table, body] of text.matchAll(/create table (\w+) \(([\s\S]*?)\n\);/g)) {
      for (const [, column, values] of (body ?? '').matchAll(/^ {2}(\w+) .*check \(\w+ in \(([^)]*)\)\)/gm)) {
        note(`${table}.${column}`, values)
      }
    }
    // A later constraint replaces the one from the table definition.
    const replaced = /alter table (\w+) add constraint \w+\s+check \((\w+) in \(([^)]*)\)\)/g
    for (const [, table, column, values] of text.matchAll(replaced)) note(`${table}.${column}`, values)
  }
  return found
}

describe('vocabularies', () => {
  const expected: Record<string, object> = {
    'dataset.status': DatasetStatus,
    'dataset.storage_format': StorageFormat,
    'training_run.status': TrainingRunStatus,
    'training_run.operating_mode': OperatingMode,
    'training_run.hardware_preference': HardwarePreference,
    'job_event.event_type': JobEventType,
    'endpoint.visibility': EndpointVisibility,
    'endpoint.status': EndpointStatus,
    'endpoint.review_status': ReviewStatus,
    'task.status': TaskStatus,
    'memory_grant.access': MemoryAccess,
    'task_memory.outcome': MemoryOutcome,
    'model_space.role': SpaceRole,
    'model_space.kind': SpaceKind,
    'model_space.status': SpaceStatus,
    'structured_run.status': StructuredRunStatus,
    'structured_run.step': EvaluationStep,
    'compatibility_evidence.relation': Relation,
    'compatibility_evidence.metric': Metric,
    'compatibility_evidence.status': EvidenceStatus,
    'webhook_delivery.status': WebhookDeliveryStatus,
  }

  for (const [column, vocabulary] of Object.entries(expected)) {
    it(`match between wire and database for ${column}`, async () => {
      const checked = await checkedValues()

      assert.deepEqual(checked.get(column), (vocabulary as { enum: string[] }).enum)
    })
  }
})
