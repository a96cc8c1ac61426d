import type { Kysely } from 'kysely'
import type { CallableEndpointRow } from '../../../db/repositories/endpoints/callable.ts'
import type { Database } from '../../../db/tables.ts'
import type { NewTask } from '../../../db/tables/inference.ts'
import type { EndpointRow, ModelVersionRow, NewEndpoint, NewModelVersion } from '../../../db/tables/models.ts'
import type { NewJob, JobRow } from '../../../db/tables/training.ts'
import { newId } from '../../../domain/ids.ts'

const OBJECT_SCHEMA = JSON.stringify({ type: 'object' })
const EXAMPLE = JSON.stringify({ instances: [{ x: 1 }] })

/** Builds a training run for an account, completed by default. */
export function buildRun(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<NewJob> = {},
): Promise<JobRow> {
  return db
    .insertInto('training_run')
    .values({
      id: newId(),
      account_id: accountId,
      job_type: 'training',
      job_name: 'a run',
      status: 'completed',
      model_config_id: 'tabular-regression',
      hyperparameters: '{}',
      operating_mode: 'balanced',
      hardware_preference: 'auto',
      task_queue: 'train.cpu',
      config_digest: newId(),
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Builds a version for an account, as a completed run creates it. */
export function buildVersion(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<NewModelVersion> = {},
): Promise<ModelVersionRow> {
  const id = newId()
  return db
    .insertInto('model_version')
    .values({
      id,
      account_id: accountId,
      model_key: `model-${id}`,
      name: 'a version',
      model_config_id: 'tabular-regression',
      runtime_profile: 'tabular',
      memory_mb: 100,
      input_schema: OBJECT_SCHEMA,
      output_schema: OBJECT_SCHEMA,
      example_input: EXAMPLE,
      example_output: EXAMPLE,
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Builds an endpoint for an account with its own version, private by default. */
export async function buildEndpoint(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<NewEndpoint> = {},
): Promise<EndpointRow> {
  const id = newId()
  const version = overrides.version_id ? undefined : await buildVersion(db, accountId)
  return db
    .insertInto('endpoint')
    .values({
      id,
      account_id: accountId,
      name: `endpoint-${id}`,
      visibility: 'account',
      review_status: 'active',
      source: 'trained',
      task_type: 'regression',
      version_id: version?.id ?? '',
      model_key: version?.model_key ?? 'no-model',
      runtime_profile: 'tabular',
      input_schema: OBJECT_SCHEMA,
      output_schema: OBJECT_SCHEMA,
      example_input: EXAMPLE,
      example_output: EXAMPLE,
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The fields that make an endpoint public. */
export const PUBLIC_LISTING = {
  visibility: 'public',
  review_status: 'approved',
} as const satisfies Partial<NewEndpoint>

/** Builds a queued task that is a minute old, with the hold from its admission. */
export async function buildHeldTask(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<NewTask> = {},
): Promise<string> {
  const endpoint = await buildEndpoint(db, accountId)
  const id = newId()
  await db
    .insertInto('task')
    .values({
      id,
      account_id: accountId,
      endpoint_id: endpoint.id,
      status: 'queued',
      surface: 'rest',
      model_key: endpoint.model_key,
      price_micro: 100,
      created_at: new Date(Date.now() - 60_000),
      ...overrides,
    })
    .execute()
  await db
    .insertInto('ledger_transfer')
    .values({
      task_id: id,
      kind: 'hold',
      from_purse: `account:${accountId}`,
      to_purse: 'escrow',
      amount_micro: 100,
    })
    .execute()
  return id
}

/** Builds an endpoint as admission reads it. */
export async function buildCallable(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<NewEndpoint> = {},
): Promise<CallableEndpointRow & EndpointRow> {
  const row = await buildEndpoint(db, accountId, overrides)
  const version = { unusable: null, memory_mb: 1, tensor_parallel: null, lifecycle_status: 'ready' } as const
  return { ...row, ...version, schema_key: '', base_key: null, engine: null }
}
