import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { runProgram } from '../../../../platform/processes/run-program.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import {
  llmPython,
  makeTinyLlm,
  requireLlm,
  type TinyLlm,
} from '../../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import { ModelServers, type StartedServer } from '../../../support/servers/nodes/model-servers.ts'

const PROBES = join(import.meta.dirname, '../../../support/builders/probes')
const PROFILE = 'llm-transformers'
const VOCABULARY = 384
const POISONED = '<|tool|>'
const TINY: TinyLlm = { dtype: 'float32', hidden: 96, layers: 3, positions: 4_096, poisoned: POISONED }
const POISONED_TOKEN = 6
/** About 100 million parameters. */
const LARGE: TinyLlm = {
  dtype: 'float32',
  hidden: 768,
  layers: 12,
  heads: 12,
  kvHeads: 4,
  intermediate: 3_584,
  tied: true,
  positions: 4_096,
}

interface TokenRequest {
  prompt: number[]
  max_tokens: number
}

/** Returns prompts of these lengths with fixed, arbitrary tokens. */
const requestsOf = (lengths: readonly number[], maxTokens: (i: number) => number): TokenRequest[] => {
  let state = 7
  const next = () => (state = (state * 48_271) % 2_147_483_647)
  return lengths.map((length, i) => ({
    prompt: Array.from({ length }, () => 7 + (next() % (VOCABULARY - 7))),
    max_tokens: maxTokens(i),
  }))
}

const MIXED = requestsOf([3, 900, 40, 1, 260, 90, 2_100, 17, 500, 64, 33, 128], (i) => 20 + 13 * (i % 5))

/** Returns the tokens that transformers generates for each request, one after the other. */
async function greedy(model: string, requests: readonly TokenRequest[]): Promise<number[][]> {
  const child = spawn(await llmPython(), [join(PROBES, 'greedy_probe.py')], {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify({ model, requests }))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  const last = out.trimEnd().split('\n').at(-1)
  if (!last) throw new Error(complaint)
  return JSON.parse(last) as number[][]
}

const chat = (server: StartedServer, body: object) =>
  server.post('/v1/chat/completions', { return_token_ids: true, temperature: 0, ...body })

const tokensOf = ({ status, body }: { status: number; body: AnyBody }): number[] => {
  assert.equal(status, 200, JSON.stringify(body))
  return body.choices[0].token_ids as number[]
}

/** Sends the requests with short pauses, so that they join and leave the batch at different times. */
const together = (server: StartedServer, bodies: readonly object[], pauseMs = 20) =>
  Promise.all(
    bodies.map(async (body, i) => {
      await sleep(i * pauseMs)
      return chat(server, body)
    }),
  )

async function countsOf({ server }: StartedServer): Promise<{ running: number; waiting: number }> {
  const { body } = await server.pool.request({ method: 'GET', path: '/metrics' })
  const page = await body.text()
  const [running, waiting] = ['running', 'waiting'].map((name) =>
    Number(new RegExp(`^hearth_llm_requests_${name} (\\d+)$`, 'm').exec(page)?.[1]),
  )
  return { running: running ?? Number.NaN, waiting: waiting ?? Number.NaN }
}

/** Streams a chat; calls `onChunk` for each piece of the response. */
async function stream(
  { server }: StartedServer,
  body: object,
  onChunk: () => void,
  signal?: AbortSignal,
): Promise<void> {
  const answer = await server.pool.request({
    method: 'POST',
    path: '/v1/chat/completions',
    body: JSON.stringify({ stream: true, temperature: 0, ...body }),
    ...(signal && { signal }),
  })
  for await (const bytes of answer.body as AsyncIterable<Buffer>) {
    for (const line of bytes.toString().split('\n')) if (/"delta":\{"content":"[^"]/.test(line)) onChunk()
  }
}

describe('chats that the PyTorch server computes together', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  const servers = new ModelServers()
  const model = join(folder.path, 'tiny')
  let server: StartedServer
  let expected: number[][]

  before(requireLlm)
  before(async () => {
    await mkdir(model)
    await makeTinyLlm(model, TINY)
    server = await servers.start(PROFILE, model)
    expected = await greedy(model, MIXED)
  })
  after(async () => {
    await servers[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  it('get the tokens that transformers generates for each of them alone', async () => {
    const answers = await together(server, MIXED)

    assert.deepEqual(answers.map(tokensOf), expected)
    assert.deepEqual(await countsOf(server), { running: 0, waiting: 0 })
  })

  it('wait while there is no memory for their caches, and get the same tokens', async () => {
    // Memory for about 3,000 tokens; the longest request needs more than half of it.
    const small = await servers.start(PROFILE, model, { '--cache-mb': '3', '--cache-per-weights-mb': '0' })
    const answers = together(small, MIXED, 0)
    let waited = 0
    const isOver = answers.then(
      () => true,
      () => true,
    )
    while (!(await Promise.race([isOver, sleep(5, false)]))) {
      waited = Math.max(waited, (await countsOf(small)).waiting)
    }

    assert.deepEqual((await answers).map(tokensOf), expected)
    assert.ok(waited > 1, `${waited} requests waited`)
    await small.server.stop({ graceMs: 0 })
  })

  it('draw the same tokens for a seed, whatever else runs', async () => {
    const drawn = { ...MIXED[2], max_tokens: 40, temperature: 1, top_p: 0.9, seed: 11, presence_penalty: 0.5 }
    const alone = tokensOf(await chat(server, drawn))

    const others = MIXED.map((one) => ({ ...one, temperature: 1, top_k: 50 }))
    const answers = await together(server, [...others, drawn, { ...drawn, seed: 12 }], 3)

    assert.deepEqual(tokensOf(answers.at(-2)!), alone)
    assert.notDeepEqual(tokensOf(answers.at(-1)!), alone)
  })

  it('match a schema without constraining the others', async () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
    const held = {
      prompt: MIXED[4]!.prompt,
      max_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
    }
    const alone = tokensOf(await chat(server, held))

    const [answer, ...others] = await together(server, [held, ...MIXED], 5)

    assert.equal(typeof JSON.parse(answer!.body.choices[0].message.content).n, 'number')
    assert.deepEqual(tokensOf(answer!), alone)
    assert.deepEqual(others.map(tokensOf), expected)
  })

  it('fail one by one: a prompt that the model cannot compute does not affect the others', async () => {
    const bad = { prompt: [1, POISONED_TOKEN, 20], max_tokens: 8 }
    const answers = await together(server, [...MIXED.slice(0, 4), bad, ...MIXED.slice(4), bad], 5)
    const again = await together(server, MIXED, 5)

    const failed = [4, 13].map((i) => answers[i]!)
    assert.deepEqual(
      failed.map(({ status }) => status),
      [500, 500],
    )
    assert.equal(failed[0]!.body.error.message, 'the model failed on this request')
    assert.deepEqual(answers.filter((one) => !failed.includes(one)).map(tokensOf), expected)
    assert.deepEqual(again.map(tokensOf), expected)
  })

  it('leave when their caller disconnects, while others continue', async () => {
    const leaving = new AbortController()
    let pieces = 0
    const long = { prompt: MIXED[0]!.prompt, max_tokens: 3_900 }
    const left = stream(server, long, () => pieces++, leaving.signal)
    await until(() => pieces > 10)
    const other = chat(server, { ...MIXED[2], max_tokens: 400 })
    await until(async () => (await countsOf(server)).running === 2)
    leaving.abort()

    await assert.rejects(left)
    await until(async () => (await countsOf(server)).running < 2, SOON_MS)
    const [continued] = await greedy(model, [{ ...MIXED[2]!, max_tokens: 400 }])
    assert.deepEqual(tokensOf(await other), continued)
    assert.deepEqual(await countsOf(server), { running: 0, waiting: 0 })
  })

  describe('with 100 million parameters', () => {
    const large = join(folder.path, 'large')
    let slow: StartedServer

    before(async () => {
      await mkdir(large)
      await makeTinyLlm(large, LARGE)
      slow = await servers.start(PROFILE, large)
    })

    it('get the tokens that transformers generates for each of them alone', async () => {
      const requests = requestsOf([5, 60, 17, 130, 300, 33], (i) => 12 + 4 * (i % 3))

      assert.deepEqual((await together(slow, requests, 100)).map(tokensOf), await greedy(large, requests))
    })

    it('keep streaming while the server computes a long prompt', async () => {
      const [short, long] = requestsOf([8, 2_560], (i) => (i === 0 ? 400 : 1))
      const leaving = new AbortController()
      let pieces = 0
      const streamed = stream(slow, short!, () => pieces++, leaving.signal)
      await until(() => pieces > 2)
      const before = pieces
      tokensOf(await chat(slow, long!))
      const meanwhile = pieces - before
      leaving.abort()

      await assert.rejects(streamed)
      // Each of the 20 chunks lets one token through, but most tokens of this model complete no character.
      assert.ok(meanwhile >= 3, `${meanwhile} pieces`)
    })
  })
})

describe('architectures on the PyTorch server', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()

  before(requireLlm)
  after(() => folder[Symbol.dispose]())

  it('share forward passes if their caches and positions allow it, and get the same tokens either way', async () => {
    await makeTinyLlm(folder.path)
    const usual = ['llama', 'mistral', 'gemma2', 'gemma3_text', 'gpt2', 'gpt_oss', 'qwen3_moe', 'bloom']
    const shared = [...usual, 'phi3:longrope', 'phimoe:longrope', 'llama:dynamic']
    const separate = ['bart', 'mamba', 'qwen3_5_text', 'llama:longrope']
    const names = [...shared, ...separate]
    const { stdout } = await runProgram(
      await llmPython(),
      [join(PROBES, 'lanes_probe.py'), folder.path, ...names],
      {
        env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
      },
    )

    const found = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as object
    const expected = names.map((name) => [name, { together: shared.includes(name), equal: true }] as const)
    assert.deepEqual(found, Object.fromEntries(expected))
  })
})

describe('the engine of the PyTorch server', function () {
  this.timeout(300_000)
  const folder = temporaryFolder()
  let facts: Record<string, unknown>

  before(requireLlm)
  before(async () => {
    await makeTinyLlm(folder.path, { dtype: 'float32', layers: 2, positions: 512 })
    const { stdout } = await runProgram(await llmPython(), [join(PROBES, 'engine_probe.py'), folder.path], {
      env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    })
    facts = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>
  })
  after(() => folder[Symbol.dispose]())

  const shared = { equal: true, shared: true }
  const separate = { equal: true, shared: false }
  const ended = Array.from({ length: 4 }, () => 'ended with an error')

  it('ends every request after an error, and serves later requests', () => {
    assert.deepEqual(facts['no failure'], shared)
    assert.deepEqual(facts['a lost GPU'], ended)
    assert.deepEqual(facts['after a lost GPU'], shared)
    assert.deepEqual(facts['a defect'], ended)
    assert.deepEqual(facts['after a defect'], shared)
  })

  it('continues the rows whose neighbor cannot leave their lane', () => {
    assert.deepEqual(facts['rows that cannot leave'], shared)
    assert.equal(facts['a single row that cannot leave'], true)
  })

  it('keeps a lane large if there is no memory to shrink it', () => {
    assert.deepEqual(facts['no memory to shrink'], shared)
    assert.equal(facts['prompts computed without memory to shrink'], 4)
  })

  it('computes rows separately if the padding check fails, until the next check if memory was missing', () => {
    assert.deepEqual(facts['error in the padding check'], separate)
    assert.equal(facts['error is final'], true)
    assert.deepEqual(facts['after the error in the padding check'], separate)
    assert.deepEqual(facts['lack of memory in the padding check'], separate)
    assert.equal(facts['lack of memory is final'], false)
    assert.deepEqual(facts['after the lack of memory in the padding check'], shared)
  })

  it('chooses the likeliest token at a temperature close to zero', () => {
    assert.equal(facts['a tiny temperature'], true)
  })
})
