import type { ListedEndpoint } from '../../../../db/repositories/endpoints/lists.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { microToUsd } from '../../../../domain/money.ts'
import type { Config } from '../../../../platform/config.ts'
import type { Endpoint, HubOrigin, ModelReadiness } from '../../../../schemas/endpoint.ts'

interface View {
  /** The account that reads the endpoint. */
  accountId: string
  config: Pick<Config, 'HEARTH_CREDIT_USD'>
  readiness?: ModelReadiness | undefined
}

/** Returns an import's origin, shown to all accounts because the name alone does not say whose weights are served. */
export const hubOriginOf = ({
  hub_revision: revision,
  base_model,
  account_id,
}: Pick<EndpointRow, 'hub_revision' | 'base_model' | 'account_id'>): HubOrigin =>
  revision === null
    ? { repo_id: null, revision: null, imported_by: null }
    : { repo_id: base_model, revision, imported_by: account_id }

type PresentableEndpoint = Omit<ListedEndpoint, 'is_abridged'> & Partial<Pick<ListedEndpoint, 'is_abridged'>>

/** Returns an endpoint as this account sees it. */
export function presentEndpoint(row: PresentableEndpoint, { accountId, config, readiness }: View): Endpoint {
  const owned = row.account_id === accountId
  return {
    endpoint_id: row.id,
    name: row.name,
    display_name: row.display_name,
    description: row.description,
    visibility: row.visibility,
    status: row.status,
    review_status: row.review_status,
    ...(owned && { review_note: row.review_note, serving: row.serving, merged_because: row.merged_because }),
    owned,
    source: row.source,
    is_base_model: row.is_base_model,
    task_type: row.task_type,
    base_model: row.base_model,
    model_category: row.model_category,
    ...hubOriginOf(row),
    version_id: row.version_id,
    serve_as: row.base_version_id === null ? 'merged' : 'adapter',
    base_version_id: row.base_version_id,
    input_schema: row.input_schema,
    output_schema: row.output_schema,
    example_input: row.example_input,
    example_output: row.example_output,
    examples: row.examples,
    ...(row.is_abridged && { abridged: true }),
    tags: row.tags,
    total_requests: row.total_requests,
    total_tokens_processed: row.total_tokens_processed,
    price_per_request: microToUsd(row.price_micro, config.HEARTH_CREDIT_USD),
    replaced_by: row.replaced_by,
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    ...readiness,
  }
}
