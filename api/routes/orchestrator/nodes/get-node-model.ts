import type { Kysely } from 'kysely'
import Type from 'typebox'
import * as adapterRepository from '../../../../db/repositories/endpoints/adapters.ts'
import * as servingRepository from '../../../../db/repositories/endpoints/serving.ts'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import * as nodeModelRepository from '../../../../db/repositories/nodes/models.ts'
import type { Database } from '../../../../db/tables.ts'
import { isAdapterFile } from '../../../../domain/adapters.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { parseHubKey } from '../../../../domain/hub/files.ts'
import { adapterBytes } from '../../../../domain/models/memory.ts'
import { warmupInputOf } from '../../../../domain/task-types/index.ts'
import { NodeModelSpec } from '../../../../schemas/nodes/node.ts'
import { beginSpaces } from '../../../cohorts/ensure-spaces.ts'
import { route } from '../../../http/route.ts'
import { startCandidateTest } from '../../../registry/candidate-tests.ts'
import { hubFileUrl } from './hub-file-url.ts'

const URL_TTL_S = 3600

export const getNodeModel = route({
  operationId: 'getNodeModel',
  summary: 'Get the specification with which a node loads a model',
  method: 'GET',
  path: '/nodes/models/{model_key}',
  auth: 'node-signature',
  params: Type.Object({ model_key: Type.String({ minLength: 1, maxLength: 200 }) }),
  query: Type.Object({
    adapters: Type.Optional(
      Type.Boolean({ description: 'Whether the node can serve a model as an adapter of its base' }),
    ),
  }),
  success: { status: 200, schema: NodeModelSpec },
  errors: ['not_found'],

  async handler({ caller: { nodeId }, params, query, afterCommit }, services) {
    const { db, objects } = services
    const found = await nodeModelRepository.findModelFiles(db, params.model_key)
    const claim = found && (await modelOrderRepository.modelClaimOf(db, nodeId, found.version))
    const example = claim && (await nodeModelRepository.findExample(db, found.version.id))
    if (!found || !claim || !example)
      throw new ApiError('not_found', 'this node has no order to load a model with this key')
    // A node may load models of its own account without an order; the platform then uses that load.
    if (claim === 'usable') await modelOrderRepository.joinOwnLoads(db, nodeId, [params.model_key])

    const { version } = found
    const base = query.adapters && (await adapterRepository.findBaseOf(db, version.id))
    if (base) await grantBase(db, { nodeId, modelKey: base.model_key }, claim)
    const files = base ? found.files.filter(({ path }) => isAdapterFile(path)) : found.files
    const reader = { nodeId, modelKey: version.model_key }
    // The load for a hub model's first request also tests the model.
    if (files.some(({ object_key }) => parseHubKey(object_key))) await startCandidateTest(services, version)
    // Only plans need the spaces, so don't make the node wait for them.
    afterCommit(() => beginSpaces(services, version))
    const task_type = await nodeModelRepository.findTaskType(db, version.id)
    const serving = await servingRepository.findServing(db, version.id)
    return {
      model_key: version.model_key,
      ...(serving && { serving }),
      ...(base && { base_key: base.model_key }),
      ...((await adapterRepository.hasAdapters(db, version.id)) && { has_adapters: true }),
      ...(task_type !== undefined && { task_type }),
      runtime_profile: version.runtime_profile,
      warmup_input: (task_type === undefined ? undefined : warmupInputOf(task_type)) ?? example.example_input,
      output_schema: example.output_schema,
      memory_mb: base ? Math.ceil(adapterBytes(files) / 2 ** 20) : version.memory_mb,
      files: await Promise.all(
        files.map(async ({ path, size_bytes, sha256, object_key }) => {
          const onHub = parseHubKey(object_key)
          if (onHub) return { path, size_bytes, sha256, ...hubFileUrl(services, onHub, reader) }
          const { url } = await objects.signGet(object_key, { expiresInS: URL_TTL_S })
          return { path, size_bytes, sha256, url }
        }),
      ),
    }
  },
})

/** Lets a node load the base of an adapter that it may load, so that the platform also uses the base there. */
async function grantBase(
  db: Kysely<Database>,
  base: modelOrderRepository.NodeModelRef,
  claim: modelOrderRepository.ModelClaim,
): Promise<void> {
  await modelOrderRepository.grantModels(db, base.nodeId, [base.modelKey])
  if (claim === 'ordered') await db.transaction().execute((trx) => modelOrderRepository.orderModel(trx, base))
  if (claim === 'usable') await modelOrderRepository.joinOwnLoads(db, base.nodeId, [base.modelKey])
}
