import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'

const NODES = join(import.meta.dirname, '..', '..', 'support', 'servers', 'nodes')
const LORA = ['--enable-lora', '--max-loras', '2', '--max-lora-rank', '16']
const ALL_ROUTES = { VLLM_SERVER_DEV_MODE: '1', VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1' }

/** The members of the fake's JSON responses. */
interface Body {
  error?: { message: string }
  status?: string
  level?: number
  is_sleeping?: boolean
  data?: { id: string; parent: string | null; root: string }[]
  choices?: { message: { content: string } }[]
}

describe('the fake vLLM', function () {
  this.timeout(20_000)
  const folder = temporaryFolder()
  const started: ChildProcess[] = []
  let sockets = 0
  afterEach(async () => {
    for (const child of started.splice(0)) {
      if (child.exitCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })
  after(() => folder[Symbol.dispose]())

  /** Starts an engine with these arguments and environment variables, and returns a function that calls it. */
  async function start(options: string[], env: Record<string, string> = ALL_ROUTES) {
    const socketPath = join(folder.path, `${sockets++}.sock`)
    const child = spawn(
      realPython(),
      [
        join(NODES, 'fake_vllm.py'),
        join(NODES, 'vllm-cli.json'),
        'serve',
        folder.path,
        '--served-model-name',
        'model',
        '--uds',
        socketPath,
        ...options,
      ],
      { env: { ...env, VLLM_CACHE_ROOT: join(folder.path, 'cache') }, stdio: ['ignore', 'pipe', 'pipe'] },
    )
    started.push(child)
    const pool = new Pool('http://localhost', { socketPath })
    const call = async (path: string, body?: object, method: 'GET' | 'POST' = body ? 'POST' : 'GET') => {
      const headers = { 'content-type': 'application/json' }
      const answer = await pool.request({ path, method, headers, body: body ? JSON.stringify(body) : null })
      const text = await answer.body.text()
      const value = (text.startsWith('{') ? JSON.parse(text) : {}) as Body
      return { status: answer.statusCode, value, message: value.error?.message ?? text }
    }
    const until = performance.now() + 10_000
    while ((await call('/health').catch(() => undefined))?.status !== 200) {
      assert.ok(performance.now() < until && child.exitCode === null, 'the engine did not start')
      await sleep(50)
    }
    const post = (path: string) => call(path, undefined, 'POST')
    const chat = (model = 'model') => call('/v1/chat/completions', { model, messages: [] })
    const load = (name: string, path: string, more = {}) =>
      call('/v1/load_lora_adapter', { lora_name: name, lora_path: path, ...more })
    return { call, post, chat, load }
  }
  /** Writes the files of an adapter and returns their folder. */
  function adapter(name: string, config: object = { r: 8 }): string {
    const path = join(folder.path, name)
    mkdirSync(path, { recursive: true })
    writeFileSync(join(path, 'adapter_config.json'), JSON.stringify(config))
    writeFileSync(join(path, 'adapter_model.safetensors'), '')
    return path
  }
  const textOf = ({ value }: { value: Body }) => value.choices?.[0]?.message.content

  it('lists a loaded adapter under its base, answers with it, and rejects it once it is unloaded', async () => {
    const { call, chat, load } = await start(LORA)
    const path = adapter('one')

    const loaded = await load('one', path)

    assert.deepEqual(
      [loaded.status, loaded.message],
      [200, "Success: LoRA adapter 'one' added successfully."],
    )
    const { value } = await call('/v1/models')
    assert.deepEqual(
      value.data?.map(({ id, parent, root }) => [id, parent, root]),
      [
        ['model', null, folder.path],
        ['one', 'model', path],
      ],
    )
    assert.deepEqual([textOf(await chat('one')), textOf(await chat())], ['from vLLM with one', 'from vLLM'])
    assert.equal((await call('/v1/unload_lora_adapter', { lora_name: 'one' })).status, 200)
    const gone = await chat('one')
    assert.deepEqual(
      [gone.status, gone.message],
      [404, 'The model `one` does not exist. Valid aliases: model.'],
    )
    assert.equal((await call('/v1/unload_lora_adapter', { lora_name: 'one' })).status, 404)
  })

  it('rejects adapters with the errors of vLLM', async () => {
    const { load } = await start(LORA)
    const path = adapter('two')
    const absent = join(folder.path, 'absent')
    await load('two', path)

    const answers = [
      await load('new', absent),
      await load('big', adapter('big', { r: 32 })),
      await load('dora', adapter('dora', { r: 8, use_dora: true, modules_to_save: ['lm_head'] })),
      await load('two', path),
      await load('model', path),
    ]

    assert.deepEqual(
      answers.map(({ status, message }) => [status, message]),
      [
        [404, `Loading lora new failed: No adapter found for ${absent}`],
        [500, 'Call to add_lora method failed: LoRA rank 32 is greater than max_lora_rank 16.'],
        [
          500,
          `Call to add_lora method failed: vLLM only supports modules_to_save being either None or ["classifier", "score"] for classification models. Unsupported modules_to_save: ['lm_head'] vLLM does not yet support DoRA.`,
        ],
        [
          400,
          "The lora adapter 'two' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.",
        ],
        [400, "The lora adapter 'model' conflicts with a served base model."],
      ],
    )
    assert.equal((await load('two', path, { load_inplace: true })).status, 200)
  })

  it('serves the adapters of its command line, and loads none without LoRA', async () => {
    const path = adapter('three')
    const one = await start([...LORA, '--lora-modules', `three=${path}`])
    const none = await start([])

    assert.equal(textOf(await one.chat('three')), 'from vLLM with three')
    const answer = await none.load('three', path)
    assert.equal(answer.status, 500)
    assert.match(answer.message, /LoRA is not enabled/)
  })

  it('has no routes for LoRA and sleep unless its environment enables them', async () => {
    const { load, post, call } = await start([...LORA, '--enable-sleep-mode'], {})

    const answers = [
      await load('one', adapter('one')),
      await post('/sleep'),
      await post('/wake_up'),
      await call('/is_sleeping'),
    ]

    assert.deepEqual(
      answers.map(({ status }) => status),
      [404, 404, 404, 404],
    )
  })

  it('holds requests while it sleeps, and answers them once all of its memory is back', async () => {
    const { call, chat, post } = await start(['--enable-sleep-mode'])

    assert.deepEqual((await post('/sleep?level=1&mode=wait')).value, { status: 'sleeping', level: 1 })
    assert.deepEqual((await call('/is_sleeping')).value, { is_sleeping: true })
    assert.equal((await call('/health')).status, 200)
    let hasAnswered = false
    const waiting = chat().finally(() => (hasAnswered = true))
    assert.equal((await post('/wake_up?tags=weights')).value.status, 'sleeping')
    await sleep(200)
    assert.equal(hasAnswered, false)
    assert.equal((await post('/wake_up?tags=kv_cache')).value.status, 'awake')
    assert.equal(textOf(await waiting), 'from vLLM')
  })

  it('loses its weights at level 2, and rejects unknown levels', async () => {
    const { chat, post } = await start(['--enable-sleep-mode'])

    assert.equal((await post('/sleep?level=3')).status, 400)
    await post('/sleep?level=2')
    await post('/wake_up')

    assert.equal(textOf(await chat()), '!!!!')
  })
})
