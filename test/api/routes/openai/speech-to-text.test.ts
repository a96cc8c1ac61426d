import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { toSrt, toVtt } from '../../../../domain/speech/subtitles.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { callOf, formOf, type Parts } from '../../../support/builders/forms.ts'
import { requireSpecialist, tinySpecialist } from '../../../support/builders/models/tiny-specialist.ts'
import { requireSpeech, tinySpeech, wav } from '../../../support/builders/models/tiny-speech.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import { requireOpenaiClient, startPythonClient } from '../../../support/servers/clients/openai-python.ts'
import { type InferenceWorld, startInferenceWorld } from '../../../support/servers/worlds/inference-world.ts'

const MIB = 1024 * 1024
/**
 * At this low temperature the same audio yields the same text each time; at zero the library raises the temperature
 * itself.
 */
const SETTLED = 0.0001
const TRANSCRIPTIONS = '/v1/audio/transcriptions'

describe('the OpenAI transcription API', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let model: ImportedModel
  let other: ImportedModel
  before(requireSpeech)
  before(requireSpecialist)
  before(requireOpenaiClient)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
    model = await world.import({ name: 'tiny-ears', path: await tinySpeech(), task: 'stt' })
    const path = await tinySpecialist({ kind: 'embeddings' })
    other = await world.import({ name: 'tiny-vectors', path, task: 'embeddings' })
  })
  after(() => stack.disposeAsync())

  const client = () =>
    new OpenAI({ baseURL: `${world.api.baseUrl}/v1`, apiKey: world.key, maxRetries: 3 }).audio
  const sound = (seconds: number) => toFile(wav(seconds), 'speech.wav', { type: 'audio/wav' })
  const post = async (form: FormData, path = TRANSCRIPTIONS) =>
    world.api.call('POST', path, { key: world.key, ...(await callOf(form)) })
  const spoken = (parts: Parts) => formOf(parts, 'speech.wav')

  it('returns the same text as infer in each format, cold and warm', async () => {
    const params = { model: model.name, temperature: SETTLED, language: 'en' } as const
    const { data: verbose, response } = await client()
      .transcriptions.create({ ...params, file: await sound(42), response_format: 'verbose_json' })
      .withResponse()
    const inFormat = async (response_format: 'json' | 'text' | 'srt' | 'vtt') =>
      client().transcriptions.create({ ...params, file: await sound(42), response_format })
    const json = await inFormat('json')
    const [text, srt, vtt] = [await inFormat('text'), await inFormat('srt'), await inFormat('vtt')]

    const { segments = [], duration, language, task, words } = verbose as typeof verbose & { task: string }
    assert.deepEqual([task, Number(duration), language, words], ['transcribe', 42, 'en', undefined])
    assert.ok(segments.length > 0)
    for (const [i, { id, start, end, tokens, no_speech_prob: quiet }] of segments.entries()) {
      assert.equal(id, i)
      assert.ok(start >= 0 && start <= end && end <= 42, `${start} ${end}`)
      assert.ok(quiet >= 0 && quiet <= 1)
      assert.ok(tokens.length > 0)
    }
    assert.equal(
      segments
        .map((segment) => segment.text)
        .join('')
        .trim(),
      verbose.text,
    )
    assert.deepEqual(json, { text: verbose.text, usage: { type: 'duration', seconds: 42 } })
    assert.equal(text, `${verbose.text}\n`)
    assert.equal(srt, toSrt(segments))
    assert.equal(vtt, toVtt(segments))

    const row = await world.api.database.db
      .selectFrom('task')
      .selectAll()
      .where('id', '=', response.headers.get('x-hearth-task-id') ?? '')
      .executeTakeFirstOrThrow()
    assert.deepEqual([row.status, row.surface, row.input, row.result], ['succeeded', 'openai', null, null])
  })

  it('returns word timestamps, alone or along with segments', async () => {
    const params = { model: model.name, temperature: SETTLED, response_format: 'verbose_json' } as const
    const both = await client().transcriptions.create({
      ...params,
      file: await sound(35),
      timestamp_granularities: ['word', 'segment'],
    })
    const alone = await client().transcriptions.create({
      ...params,
      file: await sound(35),
      timestamp_granularities: ['word'],
    })

    assert.ok(both.words && both.words.length > 0)
    for (const { start, end } of both.words) assert.ok(start >= 0 && start <= end && end <= 35)
    assert.ok(both.segments)
    assert.deepEqual(alone.words, both.words)
    assert.equal(alone.segments, undefined)
  })

  it('translates, and serves the Python client', async () => {
    const verbose = await client().translations.create({
      model: model.endpoint_id,
      file: await sound(3),
      response_format: 'verbose_json',
    })
    using folder = temporaryFolder()
    const path = join(folder.path, 'speech.wav')
    await writeFile(path, wav(3))
    await using python = await startPythonClient(`${world.api.baseUrl}/v1`)
    const params = { model: model.name, path, temperature: SETTLED }
    const heard = await python.call('transcribe', world.key, {
      ...params,
      response_format: 'verbose_json',
      timestamp_granularities: ['segment', 'word'],
    })
    const plain = await python.call('transcribe', world.key, { ...params, response_format: 'json' })
    const translated = await python.call('translate', world.key, params)
    const srt = await python.call('transcribe', world.key, { ...params, response_format: 'srt' })

    assert.equal((verbose as typeof verbose & { task: string }).task, 'translate')
    const { duration, segments, words } = heard as Record<string, unknown>
    assert.equal(duration, 3)
    assert.ok(Array.isArray(segments) && Array.isArray(words))
    assert.deepEqual(translated, { text: (plain as { text: string }).text })
    assert.match(String(srt), /^(1\n00:00:\d\d,\d{3} --> 00:00:\d\d,\d{3}\n|$)/)
  })

  it('returns no text for silence', async () => {
    const file = new File([wav(2, { silent: true })], 'a.wav')
    const transcribe = async (response_format: 'json' | 'vtt' | 'srt') =>
      client().transcriptions.create({ model: model.name, file, response_format })

    assert.equal((await transcribe('json')).text, '')
    assert.equal(await transcribe('vtt'), 'WEBVTT\n\n')
    assert.equal(await transcribe('srt'), '')
  })

  it('rejects invalid form parts by name, and keeps serving', async () => {
    const file = wav(1)
    const m = model.name
    const cases: [Record<string, string | Buffer<ArrayBuffer> | string[]>, number, string][] = [
      [{ file: Buffer.from('a text and no sound'), model: m }, 422, 'file'],
      [{ file: wav(0), model: m }, 422, 'file'],
      [{ file: Buffer.alloc(0), model: m }, 422, 'file'],
      [{ file: Buffer.alloc(25 * MIB + 1), model: m }, 413, '25 MB'],
      [{ file: wav(1_801, { rate: 1_000 }), model: m }, 422, 'file'],
      [{ model: m }, 422, 'file'],
      [{ file: 'speech.wav', model: m }, 422, 'file'],
      [{ sound: file, model: m }, 422, 'sound'],
      [{ file }, 422, 'model'],
      [{ file, model: [m, m] }, 422, 'model'],
      [{ file, model: 'nobody' }, 404, 'nobody'],
      [{ file, model: other.name }, 404, 'not for speech to text'],
      [{ file, model: m, response_format: 'diarized_json' }, 422, 'response_format'],
      [{ file, model: m, temperature: '2' }, 422, 'temperature'],
      [{ file, model: m, temperature: 'warm' }, 422, 'temperature'],
      [{ file, model: m, language: 'klingon' }, 422, 'language'],
      [{ file, model: m, stream: 'true' }, 422, 'stream'],
      [{ file, model: m, 'timestamp_granularities[]': 'word' }, 422, 'timestamp_granularities[]'],
      [
        { file, model: m, response_format: 'verbose_json', 'timestamp_granularities[]': ['letter'] },
        422,
        'timestamp_granularities[]',
      ],
    ]
    for (const [parts, status, named] of cases) {
      for (const path of [TRANSCRIPTIONS, '/v1/audio/translations']) {
        const answer = await post(spoken(parts), path)

        assert.equal(answer.status, status, `${Object.keys(parts).join()} ${answer.text.slice(0, 300)}`)
        const { message, param } = answer.body.error
        assert.ok(message.includes(named), message)
        if (status === 422) assert.equal(param.split('.')[0], named)
      }
    }
    const two = spoken({ file, model: m })
    two.append('file', new File([file], 'b.wav'))
    assert.equal((await post(two)).status, 422)
    const malformed = await world.api.call('POST', TRANSCRIPTIONS, {
      key: world.key,
      raw: new TextEncoder().encode(
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc',
      ),
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    })
    assert.equal(malformed.status, 400)
    const json = await world.api.call('POST', TRANSCRIPTIONS, { key: world.key, body: { model: m } })
    assert.equal(json.status, 415)

    assert.equal((await post(spoken({ file, model: m }))).status, 200)
  })

  it('holds files in the memory of request bodies, and releases it', async () => {
    const file = Buffer.concat([wav(1), Buffer.alloc(24 * MIB)])
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => post(spoken({ file, model: model.name }))),
    )
    const statuses = answers.map(({ status }) => status)

    // Body memory has space for three files at most, and an account may use only as much as it leaves free.
    assert.ok(statuses.includes(503), statuses.join())
    for (const { status, body } of answers)
      if (status === 503) assert.equal(body.error.code, 'no_capacity', JSON.stringify(body))
    assert.equal((await post(spoken({ file, model: model.name }))).status, 200)
  })
})
