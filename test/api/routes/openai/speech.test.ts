import assert from 'node:assert/strict'
import OpenAI from 'openai'
import { requireGenerative } from '../../../support/builders/models/tiny-generative.ts'
import { requireOpenaiClient, startPythonClient } from '../../../support/servers/clients/openai-python.ts'
import { GenerativeWorld } from '../../../support/servers/worlds/generative-world.ts'

/** The first bytes of files in each format, and their types. */
const FORMATS = {
  mp3: ['audio/mpeg', /^(494433|fff[23b])/],
  opus: ['audio/ogg', /^4f676753.{48}4f70757348656164/],
  aac: ['audio/aac', /^fff[19]/],
  flac: ['audio/flac', /^664c6143/],
  wav: ['audio/wav', /^52494646.{8}57415645/],
} as const
const INPUT = 'hello world, how are you today?'

describe('the OpenAI speech API', function () {
  this.timeout(300_000)
  let world: GenerativeWorld
  before(requireGenerative)
  before(requireOpenaiClient)
  before(async () => {
    world = await GenerativeWorld.start()
    await world.import('voices', 'text-to-speech', { kind: 'vits' })
    await world.import('pictures', 'text-to-image', { kind: 'stable-diffusion' })
  })
  after(() => world?.[Symbol.asyncDispose]())

  const client = () => {
    const { api, key } = world.on
    return new OpenAI({ baseURL: `${api.baseUrl}/v1`, apiKey: key, maxRetries: 3 }).audio.speech
  }
  const speak = async (more: Record<string, unknown> = {}) => {
    const response = await client().create({ model: 'voices', input: INPUT, voice: '0', ...more })
    return { bytes: Buffer.from(await response.arrayBuffer()), headers: response.headers }
  }
  const post = (body: object) => world.on.api.call('POST', '/v1/audio/speech', { key: world.on.key, body })

  it('returns every format, MP3 by default, to the TypeScript client', async () => {
    const usual = await speak()
    assert.equal(usual.headers.get('content-type'), 'audio/mpeg')
    assert.match(usual.bytes.subarray(0, 4).toString('hex'), FORMATS.mp3[1])

    for (const [response_format, [type, beginning]] of Object.entries(FORMATS)) {
      const { bytes, headers } = await speak({ response_format, seed: 7 })

      assert.equal(headers.get('content-type'), type)
      assert.match(bytes.subarray(0, 64).toString('hex'), beginning, response_format)
    }
    const wave = (await speak({ response_format: 'wav', seed: 7 })).bytes
    const samples = (await speak({ response_format: 'pcm', seed: 7 })).bytes
    // The tiny model generates audio at 16 kHz; raw samples are at 24 kHz.
    assert.equal(wave.readUInt32LE(24), 16_000)
    assert.ok(Math.abs(samples.length - (wave.length - 44) * 1.5) <= 4, `${samples.length} ${wave.length}`)
  })

  it('returns the same audio as infer, for the same speaker and seed', async () => {
    const { result } = await world.ask('voices', { text: INPUT, voice_preset: '2', seed: 7, format: 'flac' })
    const [artifact] = result.output_artifacts
    const inferred = Buffer.from(await (await fetch(artifact.url)).arrayBuffer())
    const spoken = await speak({ voice: '2', seed: 7, response_format: 'flac' })
    const other = await speak({ voice: '1', seed: 7, response_format: 'flac' })

    assert.deepEqual([artifact.filename, artifact.content_type], ['audio.flac', 'audio/flac'])
    assert.deepEqual(spoken.bytes, inferred)
    assert.notDeepEqual(other.bytes, inferred)
    assert.equal(spoken.headers.get('x-voice-used'), '2')
    const task = await world.on.task(spoken.headers.get('x-hearth-task-id') ?? '')
    assert.deepEqual([task.status, task.result], ['succeeded', null])
  })

  it('synthesizes long text in pieces, reproducibly with the same seed', async () => {
    const long = `${INPUT} `.repeat(40)
    const made = async () => {
      const { result } = await world.ask('voices', { text: long, seed: 7, format: 'wav' })
      const response = await fetch(result.output_artifacts[0].url)
      return { steps: result.metadata.steps, bytes: Buffer.from(await response.arrayBuffer()) }
    }

    const [first, again] = [await made(), await made()]
    const short = await speak({ seed: 7, response_format: 'wav' })

    // Twelve sentences fill a piece of at most 400 characters.
    assert.equal(first.steps, 4)
    assert.deepEqual(first.bytes, again.bytes)
    assert.ok(first.bytes.length > 25 * short.bytes.length, `${first.bytes.length} ${short.bytes.length}`)
  })

  it('follows the requested speed, and falls back to the first speaker for an unknown voice', async () => {
    const length = async (speed: number) =>
      (await speak({ voice: 'alloy', speed, seed: 7, response_format: 'wav' })).bytes.length

    const [slow, usual, fast] = [await length(0.5), await length(1), await length(2)]

    // With text this short, each piece lasts at least one model step.
    assert.ok(slow > 1.3 * usual && usual > 1.2 * fast, `${slow} ${usual} ${fast}`)
    assert.equal((await speak({ voice: 'alloy' })).headers.get('x-voice-used'), '0')
  })

  it('serves the Python client', async () => {
    await using python = await startPythonClient(`${world.on.api.baseUrl}/v1`)
    const params = { model: 'voices', input: INPUT, voice: '1', response_format: 'wav' }
    const spoken = (await python.call('speak', world.on.key, params)) as { bytes: string; type: string }

    assert.equal(spoken.type, 'audio/wav')
    assert.match(Buffer.from(spoken.bytes, 'base64').subarray(0, 12).toString('hex'), FORMATS.wav[1])
  })

  it('rejects invalid fields by name, and keeps serving', async () => {
    const whole = { model: 'voices', input: INPUT, voice: '0' }
    const cases: [object, number, string][] = [
      [{ ...whole, model: undefined }, 422, 'model'],
      [{ ...whole, model: 'nobody' }, 404, 'nobody'],
      [{ ...whole, model: 'pictures' }, 404, 'not for speech'],
      [{ ...whole, input: '' }, 422, 'input'],
      [{ ...whole, input: '%%%' }, 422, 'input'],
      [{ ...whole, input: 'a'.repeat(10_001) }, 422, 'input'],
      [{ ...whole, voice: undefined }, 422, 'voice'],
      [{ ...whole, voice: '3' }, 422, 'voice'],
      [{ ...whole, response_format: 'midi' }, 422, 'response_format'],
      [{ ...whole, speed: 5 }, 422, 'speed'],
      [{ ...whole, stream_format: 'sse' }, 422, 'stream_format'],
      [{ ...whole, instructions: 'sing' }, 422, 'instructions'],
      [{ ...whole, seed: -1 }, 422, 'seed'],
    ]
    for (const [body, status, named] of cases) {
      const answer = await post(body)

      assert.equal(answer.status, status, `${named} ${answer.text.slice(0, 300)}`)
      const { message, param } = answer.body.error
      assert.ok(message.includes(named), message)
      if (status === 422) assert.equal(param, named)
    }
    assert.equal((await post(whole)).status, 200)
  })
})
