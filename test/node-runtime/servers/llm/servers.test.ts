import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { runProgram } from '../../../../platform/processes/run-program.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { SOON_MS } from '../../../support/assertions/until.ts'
import { llmPython, requireLlm } from '../../../support/builders/models/tiny-llm.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import { until } from '../../../support/servers/nodes/node.ts'
import { chunksOf, LlmWorld, requireLlamaCpp } from '../../../support/servers/worlds/llm-world.ts'

const PROBE = join(import.meta.dirname, '..', '..', '..', 'support', 'servers', 'nodes', 'start_probe.py')
const MESSAGES = [{ role: 'user', content: 'What is the capital of France?' }]

/**
 * Together, this many requests take much longer than `SOON_MS`, yet leave one connection to the model server free for
 * its health check.
 */
const LEAVING = 3
const LONG = {
  messages: MESSAGES,
  max_tokens: 1_500,
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'long', schema: { type: 'array', items: { type: 'integer' }, minItems: 1_000 } },
  },
}

/** Returns a string from the middle of a response. */
const middle = (text: string) => text.slice(Math.floor(text.length / 2), Math.floor(text.length / 2) + 2)

for (const [name, form, require] of [
  ['llama.cpp', 'gguf', requireLlamaCpp],
  ['PyTorch', 'folder', requireLlm],
] as const) {
  describe(`a language model on ${name}`, function () {
    this.timeout(600_000)
    let world: LlmWorld
    let model: ImportedModel

    before(require)
    before(async () => {
      world = await LlmWorld.start()
      model = await world.import(`tiny-${form}`, form)
      await world.load(model)
    })
    after(() => world?.[Symbol.asyncDispose]())

    it('rejects a prompt far beyond its limit at once, while it answers others', async () => {
      const content = 'word '.repeat(120_000)
      const refused = world.chat(model.name, { messages: [{ role: 'user', content }], max_tokens: 1 })
      await sleep(200)
      const began = performance.now()
      const small = await world.chat(model.name, { messages: MESSAGES, max_tokens: 1 })

      assert.equal(small.status, 200)
      assert.ok(performance.now() - began < SOON_MS)
      const { status, body } = await refused
      assert.equal(status, 400)
      assert.match(
        (body as AnyBody).error.message,
        /^the messages take .* tokens(?:; this model accepts at most|, but prompt and output together may take at most) \d+/,
      )
    })

    /** Returns the health response of the model server itself. */
    async function health(): Promise<{ in_flight: number }> {
      using use = world.node.parts.models.use(model.model_key)
      assert.ok(use)
      const { body } = await use.server.pool.request({ method: 'GET', path: '/health' })
      return (await body.json()) as { in_flight: number }
    }

    const inFlight = () =>
      world.node.parts.models.report().find(({ model_key }) => model_key === model.model_key)?.in_flight

    it('is imported from disk and chats through a gateway and a node', async () => {
      const { status, body } = await world.chat(model.name, {
        messages: MESSAGES,
        max_tokens: 8,
        temperature: 0,
      })

      assert.equal(status, 200, JSON.stringify(body))
      const { choices, usage } = body as AnyBody
      assert.equal(choices[0].message.role, 'assistant')
      assert.ok(choices[0].message.content.length > 0)
      assert.ok(usage.prompt_tokens > 5 && usage.completion_tokens <= 8 && usage.completion_tokens > 0)
      assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    })

    it('streams token by token, reports usage, and signals the end', async () => {
      const chatBody = {
        messages: MESSAGES,
        max_tokens: 6,
        // With sampling, the first token may be the one that ends the answer.
        temperature: 0,
        stream: true,
        stream_options: { include_usage: true },
      }
      const { status, text } = await world.chat(model.endpoint_id, chatBody)

      assert.equal(status, 200)
      const chunks = chunksOf(text)
      assert.equal(chunks.at(-1), '[DONE]')
      const parsed = chunks.slice(0, -1) as AnyBody[]
      const contentChunks = parsed.filter(({ choices }) => choices[0]?.delta.content)
      assert.ok(contentChunks.length >= 2, text)
      assert.deepEqual(parsed.at(-1).choices, [])
      assert.equal(parsed.at(-1).usage.completion_tokens, 6)
      assert.equal(parsed.at(-2).choices[0].finish_reason, 'length')
    })

    it('answers under the name that the caller used', async () => {
      for (const requestedName of [model.name, model.endpoint_id]) {
        const whole = await world.chat(requestedName, { messages: MESSAGES, max_tokens: 2 })
        const streamed = await world.chat(requestedName, { messages: MESSAGES, max_tokens: 2, stream: true })

        const chunks = chunksOf(streamed.text).slice(0, -1) as AnyBody[]
        const names = [whole.body as AnyBody, ...chunks].map((answer) => answer.model)
        assert.deepEqual(new Set(names), new Set([requestedName]))
      }
    })

    it('rejects a temperature above 2 or below 0', async () => {
      for (const temperature of [2.01, 100, -0.1]) {
        const { status, body } = await world.chat(model.name, { messages: MESSAGES, temperature })

        assert.equal(status, 400)
        assert.match((body as AnyBody).error.message, /temperature must be a number from 0 to 2/)
        assert.equal((body as AnyBody).error.param, 'temperature')
      }
      assert.equal(
        (await world.chat(model.name, { messages: MESSAGES, temperature: 2, max_tokens: 1 })).status,
        200,
      )
    })

    it('rejects logprobs, which it does not support', async () => {
      for (const options of [{ logprobs: true }, { top_logprobs: 20 }, { logprobs: true, top_logprobs: 2 }]) {
        const { status, body } = await world.chat(model.name, { messages: MESSAGES, ...options })

        assert.equal(status, 400, JSON.stringify(options))
        assert.match((body as AnyBody).error.param, /^(top_)?logprobs$/)
      }
      const none = { messages: MESSAGES, logprobs: false, top_logprobs: 0, max_tokens: 1 }
      assert.equal((await world.chat(model.name, none)).status, 200)
    })

    it('stops at a stop sequence that the caller specifies', async () => {
      const whole = (await world.chat(model.name, { messages: MESSAGES, max_tokens: 6, temperature: 0 }))
        .body as AnyBody
      const content: string = whole.choices[0].message.content
      const stop = middle(content)

      const { body } = await world.chat(model.name, {
        messages: MESSAGES,
        max_tokens: 6,
        temperature: 0,
        stop,
      })

      assert.equal((body as AnyBody).choices[0].message.content, content.slice(0, content.indexOf(stop)))
      assert.equal((body as AnyBody).choices[0].finish_reason, 'stop')
    })

    it('rejects malformed requests with a message', async () => {
      const content = [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }]
      const { status, text } = await world.chat(model.name, { messages: [{ role: 'user', content }] })

      assert.equal(status, 400)
      assert.match(text, /reads text only/)
    })

    it('serves several conversations concurrently', async () => {
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => world.chat(model.name, { messages: MESSAGES, max_tokens: 4 })),
      )

      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
    })

    for (const stream of [true, false]) {
      it(`stops generating after its callers have disconnected ${stream ? 'mid-stream' : 'before the full response'}`, async () => {
        const leaving = new AbortController()
        const requests = Array.from({ length: LEAVING }, async () => {
          const answer = await request(`${world.api.baseUrl}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${world.caller.key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ ...LONG, model: model.name, stream }),
            signal: leaving.signal,
          })
          await answer.body.text()
        })
        await until(async () => (await health()).in_flight === LEAVING)
        leaving.abort()

        await Promise.all(requests.map((one) => assert.rejects(one)))
        await until(async () => (await health()).in_flight === 0, SOON_MS)
        await until(() => inFlight() === 0)
      })
    }

    it('sends the answer without waiting until the client has acknowledged its headers', async () => {
      const times: number[] = []
      for (let i = 0; i < 10; i++) {
        const began = performance.now()
        await health()
        times.push(performance.now() - began)
      }

      // With Nagle's algorithm, each response would take 40 ms.
      assert.ok(Math.min(...times) < 30, times.join())
    })

    if (form === 'folder') {
      it('starts without the modules that compile, distribute or constrain, which load on demand', async () => {
        const env = pythonProcessEnv({ OMP_NUM_THREADS: '1' })
        const { stdout } = await runProgram(await llmPython(), [PROBE, world.pathOf(model.name)], { env })

        const report = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as object
        assert.deepEqual(report, { said: 2, loaded: [], compiled: false })
      })
    }

    it('frees its memory when it is stopped: its processes are gone', async () => {
      const { driver, models, memory } = world.node.parts
      const pids = await Promise.all(driver.running.map((one) => one.pid()))
      assert.ok(memory.heldBy(model.model_key) > 0)

      await models[Symbol.asyncDispose]()
      await sleep(50)

      assert.equal(driver.running.length, 0)
      for (const pid of pids) assert.throws(() => process.kill(pid ?? 0, 0), /ESRCH/)
    })
  })
}
