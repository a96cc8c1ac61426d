import assert from 'node:assert/strict'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeTinyGguf } from '../../../../embedded/demo/tiny-gguf.ts'
import { makeTinyLlm, requireLlm } from '../../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import {
  ModelServers,
  type SentPayload,
  type StartedServer,
} from '../../../support/servers/nodes/model-servers.ts'
import { requireLlamaCpp } from '../../../support/servers/worlds/llm-world.ts'

const SPACE = 'a'.repeat(64)
const MESSAGES = [
  { role: 'system', content: 'You are a helpful assistant that answers in one short sentence.' },
  { role: 'user', content: `${'The quick brown fox jumps over the lazy dog. '.repeat(30)}What is it?` },
]
const GREEDY = { max_tokens: 48, temperature: 0 }

/** Writes a model in each format; `other` writes one with the same number of layers but a different head size. */
const FORMS = {
  gguf: {
    make: (folder: string) => writeTinyGguf(join(folder, 'model.gguf'), { context: 4_096 }),
    other: undefined,
  },
  folder: {
    make: (folder: string) => makeTinyLlm(folder, { hidden: 96, layers: 3 }),
    other: (folder: string) => makeTinyLlm(folder, { hidden: 64, layers: 3 }),
  },
}

for (const [name, form, profile, require] of [
  ['llama.cpp', 'gguf', 'llm-llamacpp', requireLlamaCpp],
  ['PyTorch', 'folder', 'llm-transformers', requireLlm],
] as const) {
  describe(`a prompt read by one ${name} server and continued by another`, function () {
    this.timeout(300_000)
    const folder = temporaryFolder()
    const servers = new ModelServers()
    let producer: StartedServer
    let consumer: StartedServer
    let payload: SentPayload

    before(require)
    before(async () => {
      const model = join(folder.path, form)
      await mkdir(model)
      await FORMS[form].make(model)
      producer = await servers.start(profile, model)
      consumer = await servers.start(profile, model)
      const { status, body } = await prefill('payload')
      assert.equal(status, 200, JSON.stringify(body))
      payload = await consumer.take(producer, 'payload')
      assert.equal(body.size_bytes, payload.size_bytes)
    })
    after(async () => {
      await servers[Symbol.asyncDispose]()
      folder[Symbol.dispose]()
    })

    const prefill = (file: string, messages: unknown = MESSAGES) =>
      producer.post('/prefill', { messages, file, space_fingerprint: SPACE })
    const decode = (sent: SentPayload, more: object = GREEDY, space = SPACE) =>
      consumer.post('/decode', { ...sent, space_fingerprint: space, ...more })
    const undivided = (more: object = GREEDY) =>
      consumer.post('/v1/chat/completions', { messages: MESSAGES, ...more })

    /** Fails unless the payload is rejected with this code, and the next one is served. */
    async function refused(answer: { status: number; body: AnyBody }, failure: string, why?: RegExp) {
      assert.equal(answer.status, 422, JSON.stringify(answer.body))
      assert.equal(answer.body.error.code, failure)
      if (why) assert.match(answer.body.error.message, why)
      const { status } = await decode(payload, { max_tokens: 1 })
      assert.equal(status, 200)
    }

    it('yields exactly the output of a single server', async () => {
      const { status, body } = await decode(payload)
      const whole = await undivided()

      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual(body.choices, whole.body.choices)
      assert.deepEqual(body.usage, whole.body.usage)
      assert.ok(body.usage.completion_tokens > 1)
    })

    it('supports the usual options', async () => {
      const drawn = { max_tokens: 24, temperature: 0.9, top_k: 20, seed: 7 }
      const [body, whole] = [await decode(payload, drawn), await undivided(drawn)]
      assert.deepEqual(body.body.choices, whole.body.choices)

      const stopped = { ...GREEDY, stop: [whole.body.choices[0].message.content.slice(4, 8)] }
      const [cut, wholeCut] = [await decode(payload, stopped), await undivided(stopped)]
      assert.deepEqual(cut.body.choices, wholeCut.body.choices)
    })

    it('can be continued any number of times, even concurrently', async () => {
      const answers = await Promise.all(Array.from({ length: 4 }, () => decode(payload)))

      const [first, ...others] = answers.map(({ body }) => body.choices)
      assert.ok(first)
      for (const other of others) assert.deepEqual(other, first)
    })

    it('is rejected unless its file is in the payload folder', async () => {
      const outside = join(folder.path, 'outside')
      await writeFile(outside, await producer.bytesOf('payload'))
      await symlink(outside, join(consumer.server.exchangeDir ?? '', 'link'))

      for (const file of ['../server.sock', outside, '', '.hidden', 7, null]) {
        const sent = { ...payload, file: file as string }
        await refused(await decode(sent), 'refused')
        await refused(await prefill(file as string), 'refused')
      }
      await refused(await decode({ ...payload, file: 'link' }), 'payload_gone')
      await refused(await decode({ ...payload, file: 'absent' }), 'payload_gone')
    })

    it('is rejected when it is truncated or any byte differs', async () => {
      const bytes = await producer.bytesOf('payload')
      const flipped = Buffer.from(bytes)
      flipped.fill(0x5a, bytes.length - 900, bytes.length - 894)
      const cut = await consumer.put('cut', bytes.subarray(0, -1))
      await consumer.put('flipped', flipped)

      await refused(await decode({ ...payload, file: 'cut' }), 'size_mismatch')
      await refused(await decode({ ...payload, file: 'flipped' }), 'digest_mismatch')
      // A payload truncated along with its stated size has too little content.
      await refused(await decode(cut), 'shape_mismatch')
    })

    it('is rejected when it is not a payload', async () => {
      const pickle = await consumer.put('pickle', Buffer.from('80049503000000000000004e2e', 'hex'))
      const empty = await consumer.put('empty', Buffer.alloc(0))

      await refused(await decode(pickle), 'shape_mismatch')
      await refused(await decode(empty), 'shape_mismatch')
    })

    it("is rejected with the field's name when its request can't be served", async () => {
      const { status, body } = await prefill('x', [])
      assert.equal(status, 400)
      assert.equal(body.error.param, 'messages')

      const long = await prefill('x', [{ role: 'user', content: 'word '.repeat(20_000) }])
      assert.equal(long.status, 400)
      assert.match(long.body.error.message, /^the messages take .* tokens/)
      await assert.rejects(producer.bytesOf('x'))

      const wrong = await decode(payload, { temperature: 9 })
      assert.equal(wrong.body.error.param, 'temperature')
    })

    const { other } = FORMS[form]
    if (other) {
      it('is rejected when it belongs to a different space or a different model', async () => {
        await refused(await decode(payload, GREEDY, 'b'.repeat(64)), 'space_mismatch')

        const model = join(folder.path, 'other')
        await mkdir(model)
        await other(model)
        const stranger = await servers.start(profile, model)
        const prefillBody = { messages: MESSAGES, file: 'payload', space_fingerprint: SPACE }
        await stranger.post('/prefill', prefillBody)
        const foreign = await stranger.bytesOf('payload')
        const sent = await consumer.put('foreign', foreign)
        await refused(await decode(sent), 'shape_mismatch', /instead of \[1, 2, \d+, 24\]$/)
      })
    } else {
      it('is rejected when its size or its vocabulary does not match this model', async () => {
        const bytes = await producer.bytesOf('payload')
        const more = Buffer.from(bytes)
        // Its header claims one more token.
        more.writeUInt32LE(bytes.readUInt32LE(8) + 1, 8)
        await refused(await decode(await consumer.put('more', more)), 'shape_mismatch', /bytes on this model/)

        const strange = Buffer.from(bytes)
        strange.writeInt32LE(1_000_000, 12)
        await refused(await decode(await consumer.put('strange', strange)), 'shape_mismatch', /vocabulary/)
      })

      it('is rejected when it leaves no room for an output in the context of 4,096 tokens', async () => {
        const bytes = await producer.bytesOf('payload')
        bytes.writeUInt32LE(4_095, 8)
        const full = await consumer.put('full', bytes)

        await refused(
          await decode(full),
          'shape_mismatch',
          /has 4095 tokens; this model accepts at most 4094$/,
        )
      })
    }
  })
}
