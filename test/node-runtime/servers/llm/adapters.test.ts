import assert from 'node:assert/strict'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { runProgram } from '../../../../platform/processes/run-program.ts'
import { buildFolders } from '../../../support/builders/models/made-models.ts'
import {
  llmPython,
  makeTinyLlm,
  requireLlm,
  type TinyLlm,
} from '../../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import {
  ModelServers,
  type SentPayload,
  type StartedServer,
} from '../../../support/servers/nodes/model-servers.ts'

const BUILDERS = join(import.meta.dirname, '../../../support/builders')
const COUNT = 8
const TINY: TinyLlm = { dtype: 'float32', hidden: 96, layers: 3, positions: 1_024 }

type Pool = Pick<StartedServer['server']['pool'], 'request'>

interface Answers {
  prompts: number[][]
  base: number[][]
  /** By adapter, the tokens of the merged model. */
  adapters: number[][][]
}

describe('the adapters of the PyTorch chat server', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  const servers = new ModelServers()
  const base = join(folder.path, 'base')
  const adapters = join(folder.path, 'adapters')
  let server: StartedServer
  let answers: Answers

  before(requireLlm)
  before(async () => {
    await Promise.all([mkdir(base), mkdir(adapters)])
    await makeTinyLlm(base, TINY)
    const program = join(BUILDERS, 'models/tiny_adapters.py')
    const inputs = [JSON.stringify(TINY), String(COUNT)]
    const args = (draft: string) => [draft, base, String(COUNT)]
    const [made = ''] = await buildFolders(await llmPython(), [{ program, inputs, args }])
    await cp(made, adapters, { recursive: true })
    answers = JSON.parse(await readFile(join(adapters, 'answers.json'), 'utf8')) as Answers
    server = await servers.start('llm-transformers', base, {}, adapters)
  })
  after(async () => {
    await servers[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const load = (name: string, path: string) =>
    server.post('/v1/load_lora_adapter', { lora_name: name, lora_path: join(adapters, path) })
  const unload = (name: string) => server.post('/v1/unload_lora_adapter', { lora_name: name })
  const nameOf = (number: number) => `adapter:model.${number}`

  /** Returns the tokens of an adapter, or of the base, for one of the prompts. */
  async function ask(pool: Pool, prompt: number): Promise<number[]> {
    const body = { prompt: answers.prompts[prompt], max_tokens: 12, temperature: 0, return_token_ids: true }
    const path = '/v1/chat/completions'
    const answer = await pool.request({ method: 'POST', path, body: JSON.stringify(body) })
    const text = await answer.body.text()
    assert.equal(answer.statusCode, 200, text)
    return (JSON.parse(text) as { choices: [{ token_ids: number[] }] }).choices[0].token_ids
  }
  const poolOf = (number: number) => server.server.poolOf(nameOf(number))

  it('answer like the merged models, whatever else the server computes', async () => {
    for (let number = 0; number < COUNT; number++)
      assert.equal((await load(nameOf(number), `adapter-${number}`)).status, 200)

    const everything = answers.prompts.flatMap((_, prompt) => [
      { pool: server.server.pool, prompt, expected: answers.base[prompt] },
      ...answers.adapters.map((expected, number) => ({
        pool: poolOf(number),
        prompt,
        expected: expected[prompt],
      })),
    ])
    const found = await Promise.all(everything.map(({ pool, prompt }) => ask(pool, prompt)))

    assert.deepEqual(
      found,
      everything.map(({ expected }) => expected),
    )
    assert.ok(
      new Set(found.map(String)).size > COUNT,
      'the adapters change too few answers to show a difference',
    )
    const { body } = await server.server.pool.request({ method: 'GET', path: '/v1/models' })
    const { data } = (await body.json()) as { data: { id: string; parent?: string }[] }
    assert.deepEqual(
      data.map(({ id, parent }) => [id, parent]),
      [['model', undefined], ...answers.adapters.map((_, number) => [nameOf(number), 'model'])],
    )
  })

  it('can be removed while the others answer, and loaded again', async () => {
    const [first, second] = await Promise.all([ask(poolOf(1), 0), unload(nameOf(0)), ask(poolOf(2), 0)])

    assert.deepEqual([first, await ask(poolOf(1), 0)], [answers.adapters[1]?.[0], answers.adapters[1]?.[0]])
    assert.equal(second.status, 200)
    const gone = await poolOf(0).request({
      method: 'POST',
      path: '/v1/chat/completions',
      body: JSON.stringify({ prompt: [7], max_tokens: 1 }),
    })
    assert.equal(gone.statusCode, 400)
    assert.match(await gone.body.text(), /this adapter is not loaded/)
    assert.equal((await unload(nameOf(0))).status, 404)
    assert.equal((await load(nameOf(0), 'adapter-0')).status, 200)
    assert.deepEqual(await ask(poolOf(0), 2), answers.adapters[0]?.[2])
  })

  it('continue only prompts that they prefilled', async () => {
    const space = { space_fingerprint: 'a'.repeat(64) }
    const post = async (pool: Pool, path: string, body: object) => {
      const answer = await pool.request({ method: 'POST', path, body: JSON.stringify({ ...space, ...body }) })
      return { status: answer.statusCode, body: (await answer.body.json()) as AnyBody }
    }
    const prefilled = async (file: string, pool: Pool) => {
      const { status, body } = await post(pool, '/prefill', { file, prompt: 'one two' })
      assert.equal(status, 200, JSON.stringify(body))
      return server.put(file, await server.bytesOf(file))
    }
    const decode = (sent: SentPayload, pool: Pool) => post(pool, '/decode', { ...sent, max_tokens: 1 })
    const { pool } = server.server
    const [own, plain] = [await prefilled('own', poolOf(1)), await prefilled('plain', pool)]

    const wrong = [await decode(own, poolOf(2)), await decode(own, pool), await decode(plain, poolOf(1))]
    const right = [await decode(own, poolOf(1)), await decode(plain, pool)]

    for (const { status, body } of wrong) {
      assert.equal(status, 422)
      assert.equal(body.error.code, 'space_mismatch')
    }
    assert.match(
      wrong.at(-1)?.body.error.message,
      /^the payload was computed with no adapter, but the request is for the adapter with the digest \w{12}$/,
    )
    for (const { status, body } of right) assert.equal(status, 200, JSON.stringify(body))
  })

  it('are refused with a reason, which changes nothing', async () => {
    const broken = async (name: string, change: (config: Record<string, unknown>) => object | string) => {
      const path = join(adapters, name)
      await cp(join(adapters, 'adapter-3'), path, { recursive: true })
      const file = join(path, 'adapter_config.json')
      const changed = change(JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>)
      await writeFile(file, typeof changed === 'string' ? changed : JSON.stringify(changed))
      return load('adapter:broken', name)
    }
    const CASES: [name: string, change: Parameters<typeof broken>[1], words: RegExp][] = [
      [
        'other-modules',
        (config) => ({ ...config, target_modules: ['nonsense'] }),
        /not found in the base model/,
      ],
      ['other-rank', (config) => ({ ...config, r: 4 }), /cannot be loaded: .*size mismatch/s],
      ['fewer-modules', (config) => ({ ...config, target_modules: ['q_proj'] }), /of its weights do not fit/],
      ['other-method', (config) => ({ ...config, peft_type: 'IA3' }), /only LORA/],
      ['saved-modules', (config) => ({ ...config, modules_to_save: ['lm_head'] }), /modules_to_save/],
      ['dora', (config) => ({ ...config, use_dora: true }), /use_dora/],
      ['no-json', () => '{', /adapter_config.json cannot be read/],
    ]
    for (const [name, change, words] of CASES) {
      const { status, body } = await broken(name, change)
      assert.equal(status, 400, name)
      assert.match(JSON.stringify(body), words)
    }
    assert.equal((await server.post('/v1/load_lora_adapter', { lora_path: adapters })).status, 400)
    assert.equal((await load('model', 'adapter-3')).status, 400)
    assert.deepEqual(await ask(server.server.pool, 1), answers.base[1])
    assert.deepEqual(await ask(poolOf(3), 1), answers.adapters[3]?.[1])
  })

  it('cannot change the weights that they share with the base', async () => {
    const path = join(adapters, 'with-base-weights')
    await cp(join(adapters, 'adapter-3'), path, { recursive: true })
    const file = join(path, 'adapter_model.safetensors')
    await runProgram(await llmPython(), [
      '-c',
      `from safetensors.torch import load_file, save_file; w = load_file(${JSON.stringify(file)}); ` +
        `import torch; w['base_model.model.model.norm.weight'] = torch.zeros(${TINY.hidden}); save_file(w, ${JSON.stringify(file)})`,
    ])

    const { status, body } = await load('adapter:broken', 'with-base-weights')

    assert.equal(status, 400)
    assert.match(JSON.stringify(body), /model.norm.weight, which is not a weight of a LoRA layer/)
    for (const [name, config] of [['olora', { init_lora_weights: 'olora' }]] as const) {
      const other = join(adapters, name)
      await cp(join(adapters, 'adapter-3'), other, { recursive: true })
      const settings = join(other, 'adapter_config.json')
      const found = JSON.parse(await readFile(settings, 'utf8')) as object
      await writeFile(settings, JSON.stringify({ ...found, ...config }))
      assert.equal((await load(`adapter:${name}`, name)).status, 200)
    }
    assert.deepEqual(await ask(server.server.pool, 1), answers.base[1])
    assert.equal((await load(nameOf(3), 'adapter-3')).status, 200)
    assert.deepEqual(await ask(poolOf(3), 1), answers.adapters[3]?.[1])
  })

  it('take little more memory than their files, and a moment to switch', async () => {
    const program = join(BUILDERS, 'probes/adapters_probe.py')
    const { stdout } = await runProgram(await llmPython(), [program, base, adapters], {
      env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    })
    const report = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, number>
    const {
      difference = 1,
      switch_ms = 1_000,
      base_bytes = 0,
      adapter_bytes = 0,
      all_bytes = Infinity,
    } = report

    // The lowest limit of the candidate test.
    assert.ok(difference < 0.02, `the logits differ by ${difference} of their range`)
    assert.ok(all_bytes <= 1.05 * (base_bytes + adapter_bytes), JSON.stringify(report))
    assert.ok(switch_ms < 50, `a switch takes ${switch_ms} ms`)
  })
})
