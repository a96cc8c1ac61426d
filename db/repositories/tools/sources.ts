import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import type { ToolSource } from '../../../domain/tools/manifest.ts'
import type { Database } from '../../tables.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'

/** An endpoint as a tool, with the stored version of its manifest. */
export interface ToolSourceRow extends ToolSource {
  visibility: 'private' | 'account' | 'public'
  review_status: 'active' | 'pending_review' | 'approved' | 'rejected'
  deleted_at: Date | null
  /** The reason why its model cannot be used. */
  unusable: string | null
  version: string | null
  digest: Buffer | null
  format: number | null
}

export interface SourcePage {
  after: string | undefined
  limit: number
}

/** Reads an account's endpoints that accept requests, ordered by id. */
export function readOwnTools(
  db: Kysely<Database>,
  accountId: string,
  page: SourcePage,
): Promise<ToolSourceRow[]> {
  return takingRequests(db, page).where('endpoint.account_id', '=', accountId).execute()
}

/** Reads endpoints that every account may call, ordered by id. */
export function readPublicTools(db: Kysely<Database>, page: SourcePage): Promise<ToolSourceRow[]> {
  return takingRequests(db, page)
    .where('endpoint.visibility', '=', 'public')
    .where('endpoint.review_status', '=', 'approved')
    .execute()
}

/** Reads endpoints by id, including those that are deleted or don't accept requests. */
export function readTools(db: Kysely<Database>, ids: readonly string[]): Promise<ToolSourceRow[]> {
  return ids.length === 0 ? Promise.resolve([]) : sources(db).where('endpoint.id', 'in', ids).execute()
}

const takingRequests = (db: Kysely<Database>, { after, limit }: SourcePage) =>
  sources(db)
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint.status', 'in', ['active', 'deprecated'])
    .where('model_version.unusable', 'is', null)
    .where('model_version.lifecycle_status', '<>', 'disabled')
    .where((eb) => eb.not(disabledByOwner()))
    .$if(after !== undefined, (qb) => qb.where('endpoint.id', '>', after ?? ''))
    .orderBy('endpoint.id')
    .limit(limit)

function sources(db: Kysely<Database>) {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .leftJoin('tool_version', 'tool_version.endpoint_id', 'endpoint.id')
    .leftJoin('training_run as job', (join) =>
      join.onRef('job.id', '=', 'model_version.job_id').onRef('job.account_id', '=', 'endpoint.account_id'),
    )
    .leftJoin('dataset', (join) =>
      join
        .onRef('dataset.id', '=', 'model_version.dataset_id')
        .on((eb) =>
          eb.or([
            eb('dataset.account_id', '=', eb.ref('endpoint.account_id')),
            eb('dataset.visibility', '=', 'public'),
          ]),
        ),
    )
    .select([
      'endpoint.id',
      'endpoint.account_id',
      'endpoint.name',
      'endpoint.display_name',
      'endpoint.description',
      'endpoint.visibility',
      'endpoint.review_status',
      'endpoint.status',
      'endpoint.source',
      'endpoint.task_type',
      'endpoint.base_model',
      'endpoint.model_category',
      'endpoint.hub_revision',
      'endpoint.input_schema',
      'endpoint.output_schema',
      'endpoint.example_input',
      'endpoint.example_output',
      'endpoint.examples',
      'endpoint.tags',
      'endpoint.price_micro',
      'endpoint.proven',
      'endpoint.latency_class',
      'endpoint.replaced_by',
      'endpoint.deprecated_at',
      'endpoint.updated_at',
      'endpoint.deleted_at',
      'model_version.unusable',
      'model_version.model_config_id',
      lifecycleStatus,
      'job.id as job_id',
      'job.hyperparameters',
      'dataset.dataset_name',
      sql<boolean | null>`dataset.visibility = 'public'`.as('is_dataset_public'),
      'tool_version.version',
      'tool_version.digest',
      'tool_version.format',
    ])
}

/** An endpoint whose owner has disabled its config counts as disabled. */
const lifecycleStatus = (eb: ExpressionBuilder<Database, 'endpoint' | 'model_version'>) =>
  eb
    .case()
    .when(disabledByOwner())
    .then(eb.val<'disabled'>('disabled'))
    .else(eb.ref('model_version.lifecycle_status'))
    .end()
    .as('lifecycle_status')
