import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import { TASK_TYPES_BY_KIND } from '../../../domain/actions/kind.ts'
import type { EndpointFacets, EndpointQuery } from '../../../schemas/endpoint.ts'
import { type CutPage, MAX_PAGE_BYTES, readCutPage } from '../../page-bytes.ts'
import type { Database } from '../../tables.ts'
import type { EndpointRow } from '../../tables/models.ts'

/** The filters of `GET /endpoints`. */
export type EndpointFilter = Omit<
  EndpointQuery,
  'sort' | 'order' | 'include_facets' | 'include_readiness' | 'limit' | 'offset'
>

export interface EndpointPage {
  sort: NonNullable<EndpointQuery['sort']>
  order: NonNullable<EndpointQuery['order']>
  limit: number
  offset: number
}

const BASE_MODELS = 25

const COLUMNS = [
  'id',
  'account_id',
  'name',
  'display_name',
  'description',
  'visibility',
  'review_status',
  'task_type',
  'source',
  'base_model',
  'model_category',
  'total_requests',
  'last_used_at',
  'created_at',
] as const satisfies (keyof EndpointRow)[]

/**
 * Selects everything that an account sees: its own endpoints, and other accounts' approved public ones. These are two
 * disjoint parts, each with its own index, so the planner never reads rows that the account cannot see.
 */
function visibleTo(db: Kysely<Database>, accountId: string, owner: 'me' | undefined) {
  const own = db
    .selectFrom('endpoint')
    .select(COLUMNS)
    .where('deleted_at', 'is', null)
    .where('account_id', '=', accountId)
  if (owner === 'me') return db.selectFrom(own.as('e'))
  const offered = db
    .selectFrom('endpoint')
    .select(COLUMNS)
    .where('deleted_at', 'is', null)
    .where('visibility', '=', 'public')
    .where('review_status', '=', 'approved')
    .where('account_id', '<>', accountId)
  return db.selectFrom(own.unionAll(offered).as('e'))
}

type ListedEndpointTable = { e: Pick<EndpointRow, (typeof COLUMNS)[number]> }
type FacetFilter = Pick<EndpointFilter, 'source' | 'base_model' | 'model_category'>

/** Selects active endpoints: those used or created within this number of days. */
const activeSince = (days: number) =>
  sql<boolean>`greatest(e.last_used_at, e.created_at) > now() - make_interval(days => ${days})`

/** Returns a LIKE pattern that matches the text anywhere, with its wildcards escaped. */
export const containing = (text: string): string => `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`

/** Returns the task types that a filter includes: `specialist` includes every kind of specialist. */
const taskTypesFor = (taskType: string): readonly string[] =>
  taskType === 'specialist' ? TASK_TYPES_BY_KIND.specialist : [taskType]

/** The filters that also apply to facets. */
function matches(eb: ExpressionBuilder<ListedEndpointTable, 'e'>, filter: EndpointFilter) {
  const equals = (['visibility', 'review_status'] as const).flatMap((column) =>
    filter[column] === undefined ? [] : [eb(`e.${column}`, '=', filter[column])],
  )
  const { search, active_since_days: days, task_type: taskType } = filter
  if (taskType !== undefined) equals.push(eb('e.task_type', 'in', taskTypesFor(taskType)))
  const found = search?.trim()
    ? [
        eb.or(
          (['name', 'display_name', 'description'] as const).map((column) =>
            eb(`e.${column}`, 'ilike', containing(search.trim())),
          ),
        ),
      ]
    : []
  return eb.and([...equals, ...found, ...(days === undefined ? [] : [activeSince(days)])])
}

function matchesFacets(eb: ExpressionBuilder<ListedEndpointTable, 'e'>, filter: FacetFilter) {
  return eb.and(
    (['source', 'base_model', 'model_category'] as const).flatMap((column) =>
      filter[column] === undefined ? [] : [eb(`e.${column}`, '=', filter[column])],
    ),
  )
}

/** The columns of an endpoint that a list shows regardless of their size. */
const SHOWN = [
  ...COLUMNS,
  'status',
  'review_note',
  'is_base_model',
  'hub_revision',
  'version_id',
  'model_key',
  'serving',
  'base_version_id',
  'merged_because',
  'latency_ms',
  'tags',
  'total_tokens_processed',
  'price_micro',
  'replaced_by',
  'deprecated_at',
  'updated_at',
] as const satisfies (keyof EndpointRow)[]

type ListingColumn = 'input_schema' | 'output_schema' | 'example_input' | 'example_output' | 'examples'

export interface ListedEndpoint extends Pick<EndpointRow, (typeof SHOWN)[number] | ListingColumn> {
  /** True when its schemas and examples are left empty, because the page has no room for them. */
  is_abridged: boolean
}

/**
 * True when a row's schemas and examples fit into the page. The smallest come first, so that one large endpoint does
 * not crowd out all others. The page keeps every row, because its reader continues at an offset.
 */
const FITS = sql<boolean>`sum(endpoint.listing_bytes) over (order by endpoint.listing_bytes, endpoint.id) <= ${sql.lit(MAX_PAGE_BYTES)}`

const ifFits = <C extends ListingColumn>(column: C, empty: '{}' | '[]' = '{}') =>
  sql<
    EndpointRow[C]
  >`case when ${FITS} then ${sql.ref(`endpoint.${column}`)} else ${sql.lit(empty)}::jsonb end`.as(column)

/** Returns one page of the matching endpoints, and their total number. */
export async function listEndpoints(
  db: Kysely<Database>,
  accountId: string,
  filter: EndpointFilter,
  { sort, order, limit, offset }: EndpointPage,
): Promise<{ rows: ListedEndpoint[]; total: number }> {
  const matching = visibleTo(db, accountId, filter.owner)
    .where((eb) => matches(eb, filter))
    .where((eb) => matchesFacets(eb, filter))
  // The query selects ids first, so that wide columns are read for one page only.
  const ids = matching
    .select('e.id')
    .orderBy(`e.${sort}`, order)
    .orderBy('e.id', order)
    .limit(limit)
    .offset(offset)
  const [rows, { total }] = await Promise.all([
    db
      .selectFrom('endpoint')
      .innerJoin(ids.as('page'), 'page.id', 'endpoint.id')
      .select(SHOWN.map((column) => `endpoint.${column}` as const))
      .select(sql<boolean>`not ${FITS}`.as('is_abridged'))
      .select([
        ifFits('input_schema'),
        ifFits('output_schema'),
        ifFits('example_input'),
        ifFits('example_output'),
        ifFits('examples', '[]'),
      ])
      .orderBy(`endpoint.${sort}`, order)
      .orderBy('endpoint.id', order)
      .execute(),
    matching.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { rows, total }
}

/** Counts the endpoints that an account sees by facet, ignoring the filters for source, base model and category. */
export async function endpointFacets(
  db: Kysely<Database>,
  accountId: string,
  filter: EndpointFilter,
): Promise<EndpointFacets> {
  const matching = visibleTo(db, accountId, filter.owner).where((eb) => matches(eb, filter))
  const [counts, baseModels] = await Promise.all([
    matching
      .select(({ fn }) => [
        fn.countAll<number>().filterWhere('e.source', '=', 'catalog').as('catalog'),
        fn.countAll<number>().filterWhere('e.source', '=', 'trained').as('trained'),
        fn.countAll<number>().filterWhere(activeSince(30)).as('active_30d'),
        fn.countAll<number>().as('total'),
      ])
      .executeTakeFirstOrThrow(),
    matching
      .where('e.base_model', 'is not', null)
      .select(({ fn }) => ['e.base_model', 'e.model_category', fn.countAll<number>().as('n')])
      .groupBy(['e.base_model', 'e.model_category'])
      .orderBy('n', 'desc')
      .orderBy('e.base_model')
      .orderBy('e.model_category')
      .limit(BASE_MODELS)
      .execute(),
  ])
  return {
    counts,
    base_models: baseModels.map(({ base_model, model_category, n }) => ({
      model_name: base_model ?? '',
      model_category,
      n,
    })),
  }
}

const OFFERED = [
  'id',
  'account_id',
  'name',
  'task_type',
  'base_model',
  'hub_revision',
  'model_category',
  'model_key',
  'latency_ms',
] as const satisfies (keyof EndpointRow)[]
export type OfferedEndpoint = Pick<EndpointRow, (typeof OFFERED)[number]>

/** Lists the endpoints that are public to all accounts: approved public endpoints and base models, newest first. */
export function listOfferedEndpoints(
  db: Kysely<Database>,
  filter: { category?: string | undefined; activeOnly: boolean; before?: string | undefined; limit: number },
): Promise<OfferedEndpoint[]> {
  return db
    .selectFrom('endpoint')
    .select(OFFERED)
    .where('deleted_at', 'is', null)
    .where('visibility', '=', 'public')
    .where('review_status', '=', 'approved')
    .$if(filter.activeOnly, (qb) => qb.where('status', '=', 'active'))
    .$call((qb) => (filter.category === undefined ? qb : qb.where('model_category', '=', filter.category)))
    .$call((qb) => (filter.before === undefined ? qb : qb.where('id', '<', filter.before)))
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .execute()
}

/** Lists endpoints of one review status for operators, newest first, each with its whole listing. */
export function listForReview(
  db: Kysely<Database>,
  {
    reviewStatus,
    before,
    limit,
  }: { reviewStatus: EndpointRow['review_status']; before: string | undefined; limit: number },
): Promise<CutPage<EndpointRow>> {
  return readCutPage(
    db,
    db
      .selectFrom('endpoint')
      .selectAll()
      .select('listing_bytes as bytes')
      .where('deleted_at', 'is', null)
      .where('review_status', '=', reviewStatus)
      .$call((qb) => (before === undefined ? qb : qb.where('id', '<', before)))
      .orderBy('id', 'desc')
      .limit(limit),
  )
}
