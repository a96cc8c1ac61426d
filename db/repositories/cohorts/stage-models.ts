import { type Kysely, sql } from 'kysely'
import { getOrThrow } from '../../../domain/at.ts'
import type { StageModel } from '../../../domain/cohorts/costs.ts'
import type { GraphStage } from '../../../domain/cohorts/graph.ts'
import type { StageInput } from '../../../domain/cohorts/known-inputs.ts'
import type { StageOutput } from '../../../domain/cohorts/known-outputs.ts'
import { accessTo } from '../../../domain/endpoint.ts'
import { estimateMs } from '../../../domain/estimates.ts'
import { asker } from '../../../domain/nearest-name.ts'
import type { PlanReason } from '../../../schemas/cohorts/plan.ts'
import type { Database } from '../../tables.ts'
import type { EndpointRow } from '../../tables/models.ts'
import { type CallableEndpointRow, findCallableEndpoints } from '../endpoints/callable.ts'
import { readMeasured, readModelFacts } from '../tasks/estimates.ts'

/** The number of newest endpoints that an unknown name is compared with. */
const MAX_NAMES = 1_000

/** The model of a fallback that can be called. */
export interface FallbackModel extends StageModel, StageInput {
  /** The fallback's endpoint, as named in the request. */
  ref: string
  version_id: string
}

/** The models behind the stages of a graph, by `stage_id`, and the reasons why some have none. */
export interface StageModels {
  models: Map<string, StageModel>
  /** The models of the fallbacks that can be called, in their order. */
  fallbacks: Map<string, FallbackModel[]>
  /** The versions behind the stages, whose spaces are registered. */
  configs: Map<string, string>
  /** The input and output schemas of the stages' endpoints. */
  listings: Map<string, StageInput & StageOutput>
  reasons: PlanReason[]
}

/** The endpoint or model config that a stage calls, and its fallbacks. */
type CallingStage = Pick<GraphStage, 'stage_id' | 'endpoint_id' | 'model_config_id' | 'fallbacks'>

type StageEndpointRow = CallableEndpointRow & Pick<EndpointRow, 'version_id' | 'latency_ms' | 'output_schema'>

/** Reads the models that a graph's stages call on behalf of an account, with the time that each is expected to take. */
export async function readStageModels(
  db: Kysely<Database>,
  { stages }: { stages: readonly CallingStage[] },
  accountId: string,
): Promise<StageModels> {
  const refs = new Set(stages.flatMap(({ endpoint_id, fallbacks }) => [endpoint_id ?? [], fallbacks].flat()))
  const found = await findCallableEndpoints(db, [...refs])
  for (const { model_config_id } of stages) {
    if (model_config_id === undefined || found.has(model_config_id)) continue
    const row = await findByConfig(db, accountId, model_config_id)
    if (row) found.set(model_config_id, row)
  }
  const isMistyped = [...refs].some((ref) => !isKnown(found.get(ref), accountId))
  const meant = asker(isMistyped ? await readNames(db, accountId) : [])
  const estimate = await estimator(db, [...found.values()])
  const result: StageModels = {
    models: new Map(),
    fallbacks: new Map(),
    configs: new Map(),
    listings: new Map(),
    reasons: [],
  }
  for (const stage of stages) {
    const called = stage.endpoint_id ?? stage.model_config_id
    const row = called === undefined ? undefined : found.get(called)
    const refusal = refusalOf(row, stage, { accountId, meant })
    if (refusal) result.reasons.push(refusal)
    for (const ref of stage.fallbacks)
      if (!isKnown(found.get(ref), accountId)) result.reasons.push(unknownFallback(stage, ref, meant))
    if (!row || refusal) continue
    result.models.set(stage.stage_id, estimate(row))
    result.configs.set(stage.stage_id, row.version_id)
    result.listings.set(stage.stage_id, row)
    const usable = stage.fallbacks.flatMap((ref) => {
      const fallback = found.get(ref)
      if (!fallback || refusalOf(fallback, stage, { accountId, meant })) return []
      const { version_id, input_schema } = fallback
      return [{ ...estimate(fallback), ref, version_id, input_schema }]
    })
    result.fallbacks.set(stage.stage_id, usable)
  }
  return result
}

/** Finds an endpoint of the account that serves a version, or the version of a hub import. */
async function findByConfig(
  db: Kysely<Database>,
  accountId: string,
  configId: string,
): Promise<StageEndpointRow | undefined> {
  const row = await db
    .selectFrom('endpoint')
    .select('id')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .where(
      sql<boolean>`version_id in (select ${configId}::uuid union
        select version_id from hub_model where id = ${configId}::uuid and account_id = ${accountId}::uuid)`,
    )
    .orderBy('created_at')
    .limit(1)
    .executeTakeFirst()
  return row && (await findCallableEndpoints(db, [row.id])).get(row.id)
}

/** Reads the names of an account's endpoints, to suggest one for a mistyped name. */
async function readNames(db: Kysely<Database>, accountId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('endpoint')
    .select('name')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('created_at', 'desc')
    .limit(MAX_NAMES)
    .execute()
  return rows.map(({ name }) => name)
}

const isKnown = (row: StageEndpointRow | undefined, accountId: string): row is StageEndpointRow =>
  row !== undefined && accessTo(row, accountId) !== 'none'

const unknownFallback = (
  { stage_id }: CallingStage,
  fallback: string,
  meant: Caller['meant'],
): PlanReason => ({
  code: 'unknown_endpoint',
  message: `stage "${stage_id}": there is no endpoint "${fallback}", which it names as a fallback${question(fallback, meant)}`,
  stage_id,
})

interface Caller {
  accountId: string
  /** Returns a "did you mean" question for a name. */
  meant: (name: string) => string
}

/** Returns the end of a sentence about an endpoint that does not exist. */
function question(name: string, meant: Caller['meant']): string {
  const suggestion = meant(name)
  return suggestion && `; ${suggestion}`
}

function refusalOf(
  row: StageEndpointRow | undefined,
  stage: CallingStage,
  { accountId, meant }: Caller,
): PlanReason | undefined {
  const { stage_id, endpoint_id } = stage
  const reason = (code: PlanReason['code'], message: string): PlanReason => ({ code, message, stage_id })
  if (!isKnown(row, accountId)) {
    return endpoint_id === undefined
      ? reason(
          'unknown_endpoint',
          `no endpoint of your account serves the model of stage "${stage_id}"; register it for inference`,
        )
      : reason(
          'unknown_endpoint',
          `stage "${stage_id}": there is no endpoint "${endpoint_id}"${question(endpoint_id, meant)}`,
        )
  }
  if (accessTo(row, accountId) === 'known')
    return reason('endpoint_not_callable', `stage "${stage_id}": the endpoint is not open to your account`)
  if (row.lifecycle_status === 'disabled')
    return reason('endpoint_disabled', `stage "${stage_id}": the model of its endpoint has been disabled`)
  if (row.status === 'paused' || row.status === 'inactive')
    return reason('endpoint_not_callable', `stage "${stage_id}": its endpoint is ${row.status}`)
  if (row.unusable !== null)
    return reason('endpoint_not_callable', `stage "${stage_id}": its model cannot be loaded: ${row.unusable}`)
  return undefined
}

async function estimator(
  db: Kysely<Database>,
  rows: readonly StageEndpointRow[],
): Promise<(row: StageEndpointRow) => StageModel> {
  const facts = new Map(
    (await readModelFacts(db, [...new Set(rows.map(({ model_key }) => model_key))])).map((one) => [
      one.model_key,
      one,
    ]),
  )
  const kin = await readMeasured(db)
  return (row) => {
    const model = getOrThrow(facts, row.model_key)
    return {
      endpoint_id: row.id,
      model_name: row.name,
      model_key: row.model_key,
      runtime_profile: row.runtime_profile,
      task_type: row.task_type,
      memory_mb: row.memory_mb,
      tensor_parallel: row.tensor_parallel,
      price_micro: row.price_micro,
      run_ms: row.latency_ms ?? estimateMs(model, 'inference', kin),
      is_measured: row.latency_ms !== null,
      cached_ms: estimateMs(model, 'cached', kin),
      cold_ms: estimateMs(model, 'cold', kin),
    }
  }
}
