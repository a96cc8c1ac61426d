import assert from 'node:assert/strict'
import { createTrainingActivities } from '../../../../../activities/control/training/runs.ts'
import { newId } from '../../../../../domain/ids.ts'
import { importedListing } from '../../../../../domain/task-types/index.ts'
import { encoderRepo, llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { claimJob, putUnderLease, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'
const EMBEDDING = 'embedding-finetune'
const CLASSIFIER = 'text-classification-finetune'
const RERANKER = { architectures: ['BertForSequenceClassification'], id2label: { 0: 'LABEL_0' } }

describe('runs that tune text encoders', function () {
  this.timeout(60_000)
  let hub: TestHub
  let api: TestApi
  let node: SignedNode
  let accountId: string
  let key: string

  before(async () => {
    hub = await startHub(
      encoderRepo('acme/embedder', { architectures: ['BertModel'] }),
      encoderRepo('acme/reranker', RERANKER, { pipelineTag: 'text-ranking' }),
      llamaRepo('acme/chatty'),
    )
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    node = await signedNode(api)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })
  beforeEach(async () => ({ accountId, key } = await api.account()))

  const text = (...names: string[]) => names.map((name) => ({ name, type: 'string' }))
  const rowsOf = (model: string) => (model === EMBEDDING ? text('anchor', 'positive') : text('text', 'label'))

  async function create(model: string, body: object = {}, columns = rowsOf(model)) {
    const dataset_id = await readyDataset(api, accountId, { columns })
    return api.call('POST', `${BUILDER}/training/runs`, {
      key,
      body: { job_name: 'tune', model_config_id: model, dataset_id, ...body },
    })
  }

  async function imported(repo_id: string, task_type: string) {
    const {
      status,
      body,
      text: responseText,
    } = await api.call('POST', `${BUILDER}/models/hf/register`, {
      key,
      body: { repo_id, task_type },
    })
    assert.equal(status, 201, responseText)
    return { base: { type: 'model_version', version_id: body.version_id }, config: body.model_config_id }
  }

  it('report a column that the dataset lacks, and invalid hyperparameters', async () => {
    for (const [model, hyperparameters, columns, reason] of [
      [EMBEDDING, {}, text('anchor', 'answer'), /needs the column positive; the dataset has anchor, answer/],
      [
        EMBEDDING,
        { dataset_type: 'triplets' },
        rowsOf(EMBEDDING),
        /with dataset_type triplets needs the column negative/,
      ],
      [EMBEDDING, { positive_column: 'reply' }, rowsOf(EMBEDDING), /needs the column reply/],
      [
        EMBEDDING,
        { dataset_type: 'quads' },
        rowsOf(EMBEDDING),
        /hyperparameters\.dataset_type.*pairs.*triplets/,
      ],
      [EMBEDDING, { val_set_size: 0.9 }, rowsOf(EMBEDDING), /hyperparameters\.val_set_size.*0\.5/],
      [EMBEDDING, { batch_size: 0 }, rowsOf(EMBEDDING), /hyperparameters\.batch_size.*1/],
      [
        CLASSIFIER,
        {},
        text('text', 'kind'),
        /hyperparameters\.target_column: the dataset has no column label/,
      ],
      [
        CLASSIFIER,
        { text_column: 'body' },
        rowsOf(CLASSIFIER),
        /text_column: the dataset has no column body/,
      ],
      [CLASSIFIER, { val_set_size: 0 }, rowsOf(CLASSIFIER), /hyperparameters\.val_set_size.*0\.05/],
    ] as const) {
      const { status, body } = await create(model, { hyperparameters }, columns)
      assert.equal(status, 422, JSON.stringify(hyperparameters))
      assert.match(body.error.message, reason)
    }
  })

  it('start from models of their own kind, and report the purpose of any other model', async () => {
    const embedder = await imported('acme/embedder', 'embeddings')
    const reranker = await imported('acme/reranker', 'rerank')
    const chatty = await imported('acme/chatty', 'text-generation')

    for (const [model, { base }] of [
      [EMBEDDING, embedder],
      [CLASSIFIER, embedder],
      [CLASSIFIER, reranker],
    ] as const) {
      const { status, text: responseText } = await create(model, { base })
      assert.equal(status, 202, responseText)
    }
    for (const [model, { base }, reason] of [
      [
        EMBEDDING,
        reranker,
        /body\.base: is a model for rerank; embedding-finetune starts from models for embeddings/,
      ],
      [EMBEDDING, chatty, /is a model for text-generation/],
      [
        CLASSIFIER,
        chatty,
        /is a model for text-generation; text-classification-finetune starts from models for classif/,
      ],
    ] as const) {
      const { status, body } = await create(model, { base })
      assert.equal(status, 422)
      assert.match(body.error.message, reason)
    }
    const named = await create(EMBEDDING, { hyperparameters: { base_model: 'acme/reranker' } })
    assert.equal(named.status, 422)
    assert.match(named.body.error.message, /hyperparameters\.base_model: is a model for rerank/)
    const columns = text('instruction', 'output')
    const chat = await create('llm-qlora-finetune', { base: embedder.base }, columns)
    assert.equal(chat.status, 422)
    assert.match(
      chat.body.error.message,
      /is a model for embeddings; llm-qlora-finetune starts from models for chat/,
    )
  })

  it('are not accepted as sources of a merge', async () => {
    const { base } = await imported('acme/embedder', 'embeddings')
    const body = { name: 'mixed', method: 'slerp', sources: [base, base] }

    const merge = await api.call('POST', `${BUILDER}/training/merges`, { key, body })

    assert.equal(merge.status, 422)
    assert.match(
      merge.body.error.message,
      /sources\.0: is a model for embeddings; only language models can be merged/,
    )
  })

  it('use the model config that fits an import referenced by UUID', async () => {
    const { config } = await imported('acme/embedder', 'embeddings')

    const accepted = await create(config, {}, rowsOf(EMBEDDING))

    assert.equal(accepted.status, 202, accepted.text)
    const { specification } = await claimJob(node, accepted.body.job_id)
    assert.equal(specification.model_config_id, EMBEDDING)
  })

  it("give their nodes the repository's files that define how vectors are computed", async () => {
    const { body } = await create(EMBEDDING, { hyperparameters: { base_model: 'acme/embedder' } })

    const { specification } = await claimJob(node, body.job_id)

    assert.ok(specification.base?.type === 'files')
    const paths = specification.base.files.map(({ path }) => path)
    for (const path of ['model.safetensors', 'modules.json', '1_Pooling/config.json', 'vocab.txt'])
      assert.ok(paths.includes(path), paths.join())
    assert.ok(!paths.some((path) => path.startsWith('onnx/') || path.endsWith('.bin')), paths.join())
  })

  it('become endpoints with the schemas of their task type', async () => {
    const { body } = await create(EMBEDDING, { hyperparameters: { base_model: 'acme/embedder' } })
    const { lease_token } = await claimJob(node, body.job_id)
    const file = { kind: 'artifact', filename: 'model.safetensors', text: 'weights' } as const
    const artifacts = [await putUnderLease(node, lease_token, file)]
    const result = { artifacts, metrics: { train_mrr: 1, eval_mrr: 0.5 } }
    const done = await node.post(`/api/v1/leases/${lease_token}:complete`, result)
    assert.equal(done.status, 200, done.text)
    await createTrainingActivities(api.services).finishRun({ jobId: body.job_id, status: 'completed' })

    const path = `${BUILDER}/training/runs/${body.job_id}`
    const made = await api.call('POST', `${path}/register-for-inference`, {
      key,
      body: { name: `e-${body.job_id}` },
    })

    assert.ok(made.status < 300, made.text)
    const { body: endpoint } = await api.call('GET', `${BUILDER}/endpoints/${made.body.endpoint_id}`, { key })
    assert.equal(endpoint.task_type, 'embeddings')
    const listing = importedListing('embeddings')
    assert.deepEqual(endpoint.input_schema, listing.input_schema)
    assert.deepEqual(endpoint.example_input, listing.example_input)
    const { body: run } = await api.call('GET', path, { key })
    assert.deepEqual([run.metrics.train_mrr, run.metrics.eval_mrr], [1, 0.5])
  })

  it('prefer a GPU only while a node offers one', async () => {
    const { db } = api.database
    const { nodeId } = await signedNode(api, 'with-a-gpu')
    await db.updateTable('node').set({ hardware: 'gpu' }).where('id', '=', nodeId).execute()
    const queueUnder = async (snapshot: object): Promise<string | undefined> => {
      await db.deleteFrom('node_state').where('node_id', '=', nodeId).execute()
      await db
        .insertInto('node_state')
        .values({ node_id: nodeId, gateway_id: newId(), snapshot: JSON.stringify(snapshot) })
        .execute()
      const { body } = await create(CLASSIFIER)
      const run = db.selectFrom('training_run').select('task_queue').where('id', '=', body.job_id)
      return (await run.executeTakeFirst())?.task_queue
    }

    assert.equal(await queueUnder({}), 'train.gpu')
    assert.equal(await queueUnder({ gpu_fault: { takes_no_runs: true } }), 'train.cpu')
    assert.equal(await queueUnder({ draining: true }), 'train.cpu')
  })
})
