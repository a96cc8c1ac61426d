import assert from 'node:assert/strict'
import { findCallableEndpoint } from '../../../../../db/repositories/endpoints/callable.ts'
import { newId } from '../../../../../domain/ids.ts'
import { loadCatalog } from '../../../../../platform/catalog.ts'
import { buildEndpoint, buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { HearthRunner } from '../../../../support/builders/run-hearth.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { rawNode, reportOf } from '../../../../support/servers/nodes/raw-node.ts'

const LLM_OF = ({ id, model_key }: { id: string; model_key: string }) => ({
  runtime_profile: 'llm-transformers',
  task_type: 'chat',
  version_id: id,
  model_key,
})
const LLM = { runtime_profile: 'llm-transformers', task_type: 'chat' }

describe('the serving of an endpoint', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    mine = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const endpoint = (overrides: object = LLM) => buildEndpoint(api.database.db, mine.accountId, overrides)
  const patch = (id: string, serving: unknown, key = mine.key) =>
    api.call('PATCH', `/api/builder/v1/endpoints/${id}`, { key, body: { serving } })
  const read = async (id: string, key = mine.key) =>
    (await api.call('GET', `/api/builder/v1/endpoints/${id}`, { key })).body

  it('is null by default, replaced as a whole, and removed by null', async () => {
    const { id } = await endpoint()
    assert.equal((await read(id)).serving, null)

    const first = { max_model_len: 8_192, engine_args: { 'max-num-seqs': 32 } }
    assert.equal((await patch(id, {})).body.serving, null)
    for (const serving of [first, { engine: 'transformers' }, null]) {
      const { status, body } = await patch(id, serving)
      assert.deepEqual([status, body.serving], [200, serving], JSON.stringify(body))
      assert.deepEqual((await read(id)).serving, serving)
    }
  })

  it('can be set when a run is registered', async () => {
    const { db } = api.database
    const run = await buildRun(db, mine.accountId, { model_config_id: 'llm-qlora-finetune' })
    const columns = {
      job_id: run.id,
      model_config_id: 'llm-qlora-finetune',
      runtime_profile: 'llm-transformers',
    }
    await buildVersion(db, mine.accountId, columns)
    const register = (name: string) =>
      api.call('POST', `/api/builder/v1/training/runs/${run.id}/register-for-inference`, {
        key: mine.key,
        body: { name, serving: { gpu_memory_mb: 20_000 } },
      })

    const { status, body } = await register('with-serving')
    assert.equal(status, 201, JSON.stringify(body))
    assert.deepEqual(body.serving, { gpu_memory_mb: 20_000 })
    const second = await register('with-another')
    assert.equal(second.status, 409)
    assert.match(
      JSON.stringify(second.body),
      /the endpoint with-serving of the same version already sets serving/,
    )
  })

  it('is shown to the owner only', async () => {
    const { id } = await endpoint({
      ...LLM,
      visibility: 'public',
      review_status: 'approved',
      serving: '{"max_model_len":99}',
    })
    const other = await api.account()

    assert.deepEqual((await read(id)).serving, { max_model_len: 99 })
    assert.equal('serving' in (await read(id, other.key)), false)
  })

  it('is rejected with a 422 that names the field', async () => {
    const { id } = await endpoint()
    const cases: [serving: unknown, words: RegExp][] = [
      [{ engine: 'sglang' }, /serving\.engine/],
      [{ max_model_len: 1 }, /serving\.max_model_len/],
      [{ gpu_memory_mb: 5 }, /serving\.gpu_memory_mb/],
      [
        { engine_args: { 'trust-remote-code': true } },
        /serving\.engine_args\.trust-remote-code: .*allowed: .*max-num-seqs/,
      ],
      [{ engine_args: { '--max-num-seqs': 4 } }, /serving\.engine_args/],
      [{ engine_args: { 'max-num-seqs': 'lots' } }, /max-num-seqs: must be an integer/],
      [{ engine_args: { 'max-num-seqs': 0 } }, /max-num-seqs: must be an integer from 1 to 2147483647/],
      [{ engine_args: { seed: 1e15 } }, /seed: must be an integer from 0 to 2147483647/],
      [{ engine_args: { 'enforce-eager': 'no' } }, /enforce-eager: must be true or false/],
      [{ engine_args: { 'kv-cache-dtype': 'int1' } }, /kv-cache-dtype: must be one of auto, fp8/],
      [{ max_len: 4 }, /max_len/],
      [{ tensor_parallel: 9 }, /serving\.tensor_parallel/],
      [{ tensor_parallel: 2, engine: 'transformers' }, /serving\.tensor_parallel: .*uses one GPU/],
      [{ speculative: { method: 'eagle3', num_speculative_tokens: 3 } }, /method: .*ngram.*mtp/],
      [{ speculative: { method: 'ngram' } }, /num_speculative_tokens/],
      [
        { speculative: { method: 'mtp', num_speculative_tokens: 1, prompt_lookup_max: 4 } },
        /speculative\.prompt_lookup_max: applies only to the method ngram/,
      ],
      [
        {
          speculative: {
            method: 'ngram',
            num_speculative_tokens: 1,
            prompt_lookup_min: 5,
            prompt_lookup_max: 4,
          },
        },
        /prompt_lookup_min: must be at most prompt_lookup_max, 4/,
      ],
    ]
    for (const [serving, words] of cases) {
      const { status, body } = await patch(id, serving)
      assert.equal(status, 422, JSON.stringify(serving))
      const said = (body.detail as { loc: string[]; msg: string }[]).map(
        ({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`,
      )
      assert.match(said.join('\n'), words)
    }
    const table = await endpoint({})
    const { status, body } = await patch(table.id, { max_model_len: 100 })
    assert.deepEqual([status, body.detail[0].loc], [422, ['body', 'serving']])
    assert.match(body.detail[0].msg, /only language models have these settings/)
  })

  it('offers for a GGUF only the settings that its engines have', async () => {
    const { id } = await endpoint({ runtime_profile: 'llm-llamacpp', task_type: 'chat' })

    assert.equal((await patch(id, { max_model_len: 32_768, engine: 'llama-server' })).status, 200)
    const { id: other } = await endpoint()
    assert.equal((await patch(other, { engine: 'llama-server' })).status, 422)
    for (const [name, value] of [
      ['dtype', 'float32'],
      ['quantization', 'fp8'],
      ['gpu_memory_mb', 9_000],
      ['engine', 'transformers'],
    ] as const) {
      const { status, body } = await patch(id, { [name]: value })
      assert.deepEqual([status, body.detail[0].loc], [422, ['body', 'serving', name]])
    }
  })

  it('is rejected with a 422 if it needs more than any node of the account has', async () => {
    const { db } = api.database
    const { accountId, key } = await api.account()
    const { id } = await buildEndpoint(db, accountId, LLM_OF(await buildVersion(db, accountId)))
    const problemOf = async (serving: unknown) => {
      const { status, body } = await patch(id, serving, key)
      return status === 200 ? undefined : `${body.detail[0].loc.at(-1)}: ${body.detail[0].msg}`
    }
    const wanted = { gpu_memory_mb: 50_000 }
    assert.equal(await problemOf(wanted), undefined)
    assert.equal(
      await problemOf({ tensor_parallel: 2 }),
      'tensor_parallel: must be at most 1: the largest node that works for your account has no GPUs',
    )

    const node = await rawNode(db)
    const snapshot = reportOf([], { gpus: [40_000, 40_000].map((mb) => ({ memory_mb: mb, free_mb: mb })) })
    await db
      .insertInto('node_state')
      .values({ node_id: node.nodeId, gateway_id: newId(), snapshot: JSON.stringify(snapshot) })
      .execute()

    assert.equal(
      await problemOf(wanted),
      'gpu_memory_mb: must be at most 36000: the largest GPU has 40000 MB, of which a model may use 90%',
    )
    assert.equal(await problemOf({ gpu_memory_mb: 36_000 }), undefined)
    assert.equal(await problemOf({ ...wanted, tensor_parallel: 2 }), undefined)
    assert.equal(
      await problemOf({ gpu_memory_mb: 72_001, tensor_parallel: 2 }),
      'gpu_memory_mb: must be at most 72000: the 2 largest GPUs of a node share 80000 MB, of which a model may use 90%',
    )
    assert.equal(
      await problemOf({ tensor_parallel: 4 }),
      'tensor_parallel: must be at most 2: the largest node that works for your account has two GPUs',
    )
  })

  it('reaches the version of every endpoint, until it is removed or its endpoint is deleted', async () => {
    const { db } = api.database
    const version = await buildVersion(db, mine.accountId)
    const [one, two] = [
      await buildEndpoint(db, mine.accountId, LLM_OF(version)),
      await buildEndpoint(db, mine.accountId, LLM_OF(version)),
    ]
    const seen = async () => (await findCallableEndpoint(db, two.id))?.tensor_parallel

    await patch(one.id, { tensor_parallel: 1 })
    assert.equal(await seen(), 1)
    await patch(one.id, { max_model_len: 100 })
    assert.equal(await seen(), null)
    await patch(one.id, { tensor_parallel: 1 })
    await api.call('DELETE', `/api/builder/v1/endpoints/${one.id}`, { key: mine.key })
    assert.equal(await seen(), null)
  })

  it('can be set only by the owner of the model', async () => {
    const { db } = api.database
    const other = await api.account()
    const { id } = await buildEndpoint(db, mine.accountId, LLM_OF(await buildVersion(db, other.accountId)))

    const { status, body } = await patch(id, { max_model_len: 100 })

    assert.equal(status, 403)
    assert.match(
      JSON.stringify(body),
      /belongs to another account; only its owner may change how nodes serve it/,
    )
  })

  it('allows no argument that reads files, loads code or opens a port', () => {
    const dangerous = /trust|path|dir|plugin|code|host|port|middleware|media|config-file|ssl|log|uds|model$/
    for (const { engine_args = {} } of loadCatalog().profiles)
      assert.deepEqual(
        Object.keys(engine_args).filter((name) => dangerous.test(name.replace('max-logprobs', ''))),
        [],
      )
  })

  it('is shown and changed by `hearth endpoints serving`, one setting at a time', async () => {
    const { id, name } = await endpoint()
    using hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_API_KEY: mine.key })
    const run = async (...options: string[]) => {
      const { code, out, err } = await hearth.run(['endpoints', 'serving', name, ...options])
      assert.equal(code, 0, err)
      return out
    }

    assert.match(await run(), /with the defaults/)
    await run('--max-model-len', '4096', '--engine-arg', 'max-num-seqs=16', '--engine-arg', 'enforce-eager')
    const out = await run('--gpu-memory-mb', '9000', '--speculative', 'ngram:4', '--engine-arg', 'seed=7')
    assert.match(out, /max_model_len: 4096\n.*gpu_memory_mb: 9000|gpu_memory_mb: 9000/)
    assert.deepEqual((await read(id)).serving, {
      max_model_len: 4_096,
      gpu_memory_mb: 9_000,
      speculative: { method: 'ngram', num_speculative_tokens: 4 },
      engine_args: { 'max-num-seqs': 16, 'enforce-eager': true, seed: 7 },
    })
    await run('--reset')
    assert.equal((await read(id)).serving, null)
  })
})
