import type { ExpressionBuilder, Kysely } from 'kysely'
import { TASK_TYPES_BY_KIND } from '../../../domain/actions/kind.ts'
import type { EndpointVisibility } from '../../../schemas/endpoint.ts'
import type { ToolKind } from '../../../schemas/tool.ts'
import type { Database } from '../../tables.ts'
import type { EndpointRow } from '../../tables/models.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'

export interface ActionFilter {
  visibility?: EndpointVisibility | undefined
  kind?: ToolKind | undefined
}

const KNOWN_TYPES = Object.values(TASK_TYPES_BY_KIND).flat()

type Endpoints = ExpressionBuilder<Database, 'endpoint' | 'model_version'>

function isOfKind(eb: Endpoints, kind: ToolKind) {
  if (kind === 'trained_model') return eb('endpoint.source', '=', 'trained')
  const types: readonly string[] =
    kind in TASK_TYPES_BY_KIND ? TASK_TYPES_BY_KIND[kind as 'llm'] : KNOWN_TYPES
  return eb.and([
    eb('endpoint.source', '=', 'catalog'),
    eb('endpoint.task_type', kind === 'model' ? 'not in' : 'in', types),
  ])
}

/** Selects endpoints that accept requests: active or deprecated ones whose model is in service. */
const usable = (db: Kysely<Database>, { visibility, kind }: ActionFilter) =>
  db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .select('endpoint.id')
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint.status', 'in', ['active', 'deprecated'])
    .where('model_version.lifecycle_status', '<>', 'disabled')
    .where('model_version.unusable', 'is', null)
    .where((eb) => eb.not(disabledByOwner()))
    .$call((qb) => (visibility === undefined ? qb : qb.where('endpoint.visibility', '=', visibility)))
    .$call((qb) => (kind === undefined ? qb : qb.where((eb) => isOfKind(eb, kind))))

/** The columns that a list shows. Schemas are left out, because they may be a megabyte in size. */
const SUMMARY = [
  'endpoint.id',
  'endpoint.account_id',
  'endpoint.name',
  'endpoint.display_name',
  'endpoint.description',
  'endpoint.visibility',
  'endpoint.status',
  'endpoint.source',
  'endpoint.task_type',
  'endpoint.tags',
  'endpoint.price_micro',
] as const
type UnqualifiedColumn<T> = T extends `endpoint.${infer Column}` ? Column : never
export type InvocableEndpoint = Pick<
  EndpointRow,
  UnqualifiedColumn<(typeof SUMMARY)[number]> & keyof EndpointRow
>

/**
 * Returns a page of the endpoints that this account may invoke, newest first: its own, and other accounts' approved
 * public ones. Each part has its own index.
 */
export function listInvocable(
  db: Kysely<Database>,
  accountId: string,
  { before, limit, ...filter }: ActionFilter & { before: string | undefined; limit: number },
): Promise<InvocableEndpoint[]> {
  const part = () =>
    usable(db, filter)
      .$call((qb) => (before === undefined ? qb : qb.where('endpoint.id', '<', before)))
      .orderBy('endpoint.id', 'desc')
      .limit(limit)
  const own = part().where('endpoint.account_id', '=', accountId)
  const offered = part()
    .where('endpoint.visibility', '=', 'public')
    .where('endpoint.review_status', '=', 'approved')
    .where('endpoint.account_id', '<>', accountId)
  return db
    .selectFrom('endpoint')
    .select(SUMMARY)
    .where('endpoint.id', 'in', (eb) =>
      eb
        .selectFrom(own.as('own'))
        .select('own.id')
        .unionAll(eb.selectFrom(offered.as('offered')).select('offered.id')),
    )
    .orderBy('endpoint.id', 'desc')
    .limit(limit)
    .execute()
}
