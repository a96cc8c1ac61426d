import { isDeepStrictEqual } from 'node:util'
import type { Transaction } from 'kysely'
import * as endpointRepository from '../../db/repositories/endpoints/endpoints.ts'
import { type Listing, listingColumns } from '../../db/repositories/models/listing.ts'
import * as toolRepository from '../../db/repositories/tools/tools.ts'
import type { Database } from '../../db/tables.ts'
import type { ToolRow } from '../../db/tables/tools.ts'
import { ApiError } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import { TOOL_PROFILE, TOOL_TASK_TYPE, toolKey } from '../../domain/tools/catalog.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import { emit } from '../events.ts'
import { publishVersion } from '../registry/publish.ts'
import type { Services } from '../services.ts'

/** Offers the catalog's tools as public endpoints. Safe to repeat, and to run on several gateways at once. */
export async function registerTools({
  db,
  catalog,
  now,
  log,
}: Pick<Services, 'db' | 'catalog' | 'now' | 'log'>): Promise<void> {
  for (const { tool } of catalog.tools) {
    const offered = db.transaction().execute(async (trx) => {
      const known = await toolRepository.findTool(trx, tool.slug)
      // If an operator has removed or replaced a tool, leave it alone.
      if (known?.origin === 'operator' || known?.removed_at) return
      await offerTool(trx, tool, { origin: 'catalog', now: now() })
    })
    await offered.catch((err: unknown) => {
      if (!(err instanceof ApiError)) throw err
      emit(log, 'tool.name_taken', { slug: tool.slug })
    })
  }
}

/** Creates a tool and its endpoint, or updates both. Throws a 409 if another endpoint has the name. */
export async function offerTool(
  trx: Transaction<Database>,
  tool: CatalogTool,
  { origin, now }: { origin: ToolRow['origin']; now: Date },
): Promise<string> {
  const accountId = await toolRepository.lockTools(trx)
  const known = await toolRepository.findTool(trx, tool.slug)
  const isSame = known && known.origin === origin && isDeepStrictEqual(known.definition, tool)
  if (isSame && !known.removed_at) return known.endpoint_id
  const endpointId = known
    ? await changeEndpoint(trx, known.endpoint_id, tool, now)
    : await createEndpoint(trx, accountId, tool, now)
  await toolRepository.saveTool(trx, { origin, definition: tool, endpointId, now })
  return endpointId
}

/** Withdraws a tool; its endpoint stays for the tasks that ran with it. Returns false if there is no such tool. */
export async function withdrawTool(trx: Transaction<Database>, slug: string, now: Date): Promise<boolean> {
  await toolRepository.lockTools(trx)
  const row = await toolRepository.withdrawTool(trx, slug, now)
  if (!row) return false
  const closed = { status: 'inactive', visibility: 'private' } as const
  await endpointRepository.updateEndpoint(trx, row.endpoint_id, closed, now)
  return true
}

async function changeEndpoint(
  trx: Transaction<Database>,
  endpointId: string,
  tool: CatalogTool,
  now: Date,
): Promise<string> {
  const listing = listingOf(tool)
  await toolRepository.updateToolVersion(trx, tool.slug, listing)
  await endpointRepository.updateEndpoint(
    trx,
    endpointId,
    { ...described(tool), ...listingColumns(listing), status: 'active', ...OFFERED },
    now,
  )
  return endpointId
}

async function createEndpoint(
  trx: Transaction<Database>,
  account_id: string,
  tool: CatalogTool,
  now: Date,
): Promise<string> {
  const { slug } = tool
  const row = await publishVersion(trx, {
    version: {
      id: newId(),
      account_id,
      name: slug,
      model_key: toolKey(slug),
      model_config_id: slug,
      runtime_profile: TOOL_PROFILE,
      lifecycle_status: 'ready',
      visibility: 'public',
      memory_mb: 0,
      created_at: now,
    },
    files: [],
    listing: listingOf(tool),
    names: [slug],
    endpoint: {
      account_id,
      ...described(tool),
      ...OFFERED,
      source: 'catalog',
      task_type: TOOL_TASK_TYPE,
      created_at: now,
      updated_at: now,
    },
  })
  if (!row) throw new ApiError('conflict', `the name ${slug} is not available; choose another one`)
  return row.id
}

const OFFERED = { visibility: 'public', review_status: 'approved' } as const

const described = ({ display_name, description, tags, examples }: CatalogTool) => ({
  display_name,
  description,
  tags,
  examples: JSON.stringify(examples.slice(1)),
})

function listingOf({ input_schema, output_schema, examples }: CatalogTool): Listing {
  const [first = { input: {}, output: {} }] = examples
  return { input_schema, output_schema, example_input: first.input, example_output: first.output }
}
