import type { Transaction } from 'kysely'
import Type from 'typebox'
import type { VersionFacts } from '../../../../db/repositories/models/version-facts.ts'
import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import * as rootBaseRepository from '../../../../db/repositories/training/root-bases.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { isReserved } from '../../../../domain/actions/reserved.ts'
import { reviewAfter } from '../../../../domain/endpoint.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { isHubName } from '../../../../domain/hub/names.ts'
import { usdToMicro } from '../../../../domain/money.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { Config } from '../../../../platform/config.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { Endpoint, RegisterForInference } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { assertFits, fittingTaskTypes } from '../../../registry/fitting-task-type.ts'
import { assertMayPublish } from '../../../registry/may-publish.ts'
import { publishEndpoint } from '../../../registry/publish.ts'
import { assertItemLimit } from '../../../storage/account-items.ts'
import { checkListing } from './check-listing.ts'
import { assertMaySetServing, assertServing, servingColumn, settingsIn } from './check-serving.ts'
import { presentEndpoint } from './present.ts'
import { servedAs, unloadMerged } from './serve-as.ts'

export const registerForInference = route({
  operationId: 'registerForInference',
  summary: "Serve a completed run's model as an endpoint",
  method: 'POST',
  path: '/training/runs/{run_id}/register-for-inference',
  auth: 'api-key',
  params: Type.Object({ run_id: Uuid }),
  body: RegisterForInference,
  success: { status: 201, schema: Endpoint },
  isLong: true,
  errors: ['not_found', 'forbidden', 'conflict', 'no_capacity'],

  async handler({ caller, params: { run_id }, body }, services) {
    const { accountId } = caller
    assertMayPublish(caller, body.visibility)
    checkBody(body)
    const { db, catalog, config, now, schemaChecks } = services
    // Check before the transaction, so that a slow check holds no locks.
    const seen = await versionRepository.findListingOfJob(db, run_id)
    const isChecked = isOwn(body) && seen?.account_id === accountId
    if (isChecked) {
      await checkListing(schemaChecks, accountId, listingOf(body, seen))
    }
    const row = await db.transaction().execute(async (trx) => {
      const version = await completedVersion(trx, accountId, run_id)
      if (isOwn(body) && !isChecked) throw new ApiError('conflict', 'this run has just completed; try again')
      return create(trx, { accountId, version, body, catalog, config, now: now() })
    })
    if (row.base_version_id !== null) void unloadMerged(services, row.model_key)
    return presentEndpoint(row, { accountId, config })
  },
})

function checkBody(body: RegisterForInference): void {
  if (isUuid(body.name)) {
    throw invalid(['body', 'name'], 'a name must not look like an id', 'endpoint_name')
  }
  if (isReserved(body.name)) {
    throw invalid(
      ['body', 'name'],
      'this is the name of an operation or of a built-in tool; choose another one',
      'endpoint_name',
    )
  }
  if (isHubName(body.name)) {
    throw invalid(
      ['body', 'name'],
      'names that begin with hf- are reserved for imports from the hub',
      'endpoint_name',
    )
  }
}

/** Locks the run, so that it cannot be deleted while its model becomes an endpoint. */
async function completedVersion(
  trx: Transaction<Database>,
  accountId: string,
  jobId: string,
): Promise<VersionFacts> {
  await jobRepository.lockJob(trx, jobId)
  const run = await jobRepository.findOwnJob(trx, accountId, jobId)
  if (!run) throw new ApiError('not_found', 'there is no training run with this id')
  if (run.status !== 'completed') {
    throw new ApiError('conflict', `only a completed run can be registered; this one is ${run.status}`, {
      details: { status: run.status },
    })
  }
  const version = await versionRepository.shareLockVersionOfJob(trx, jobId)
  if (!version) throw new ApiError('conflict', 'this run has produced no model')
  if (version.lifecycle_status === 'disabled')
    throw new ApiError('conflict', 'the model of this run is disabled')
  return version
}

const isOwn = (body: RegisterForInference): boolean =>
  (body.input_schema ?? body.output_schema ?? body.example_input ?? body.example_output ?? body.examples) !==
  undefined

/** Returns the caller's fields, and all others from the training result. */
const listingOf = (body: RegisterForInference, version: versionRepository.VersionListing) => ({
  input_schema: body.input_schema ?? version.input_schema,
  output_schema: body.output_schema ?? version.output_schema,
  example_input: body.example_input ?? version.example_input,
  example_output: body.example_output ?? version.example_output,
  examples: body.examples ?? [],
})

interface Creation {
  accountId: string
  version: VersionFacts
  body: RegisterForInference
  catalog: Catalog
  config: Config
  now: Date
}

async function create(
  trx: Transaction<Database>,
  { accountId, version, body, catalog, config, now }: Creation,
): Promise<EndpointRow> {
  const { name, visibility = 'account' } = body
  const model = catalog.model(version.model_config_id)
  const fitting = await fittingTaskTypes(trx, catalog, version, 'trained')
  assertFits(body.task_type, fitting)
  const serving = settingsIn(body.serving)
  if (serving) {
    await assertServing(trx, catalog, { serving, version, accountId })
    await assertMaySetServing(trx, { version_id: version.id, account_id: accountId })
  }
  const served = await servedAs(trx, catalog, version, { serve_as: body.serve_as, serving })
  const root = await rootBaseRepository.findRootBase(trx, version.id)
  const listing = listingOf(body, await versionRepository.readListing(trx, version.id))
  const row = await publishEndpoint(trx, version, listing, {
    account_id: accountId,
    name,
    display_name: body.display_name ?? name,
    description: body.description ?? '',
    visibility,
    review_status: reviewAfter(undefined, visibility),
    source: 'trained',
    task_type: body.task_type ?? fitting[0] ?? 'specialist',
    base_model: root.name,
    model_category: model?.config.category ?? root.category,
    tags: body.tags ?? [],
    examples: JSON.stringify(body.examples ?? []),
    serving: servingColumn(serving),
    ...served,
    price_micro: usdToMicro(body.price_per_request ?? 0, config.HEARTH_CREDIT_USD),
    price_set: body.price_per_request !== undefined,
    created_at: now,
    updated_at: now,
  })
  if (row) {
    await assertItemLimit(trx, config, { accountId, kind: 'endpoints' })
    return row
  }
  throw new ApiError('conflict', `the name ${name} is not available; choose another one`, {
    details: { name },
  })
}
