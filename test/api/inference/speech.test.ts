import assert from 'node:assert/strict'
import { WorkflowNotFoundError } from '@temporalio/client'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { uploadInput } from '../../support/builders/forms.ts'
import { dataUrl, requireSpeech, tinySpeech, wav } from '../../support/builders/models/tiny-speech.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('speech to text', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let model: ImportedModel
  before(requireSpeech)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
    model = await world.import({ name: 'tiny-speech', path: await tinySpeech(), task: 'stt' })
  })
  after(() => stack.disposeAsync())

  const infer = async (input: object) => {
    const path = `/api/builder/v1/endpoints/${model.endpoint_id}/infer`
    const body = { input, sync_timeout_s: 240 }
    return world.api.call('POST', path, { key: world.key, body })
  }
  async function upload(bytes: Buffer<ArrayBuffer>): Promise<string> {
    const file = new File([bytes], 'speech.wav', { type: 'audio/wav' })
    return (await uploadInput(world, model.name, file)).body.input_url
  }

  it('transcribes an upload and a data: URL longer than one model window, cold and warm', async () => {
    const cold = await infer({ audio_url: await upload(wav(3)) })
    const warm = await infer({ audio_url: dataUrl(wav(42)), language: 'en', timestamps: false })

    assert.equal(model.runtime_profile, 'specialist-whisper')
    for (const [{ body, text }, seconds, spoken] of [
      // The model detects the language when the request names none.
      [cold, 3, /^[a-z]{2,3}$/],
      [warm, 42, /^en$/],
    ] as const) {
      assert.equal(body.status, 'succeeded', text)
      const { duration_s, segments, language, text: fullText, model: named } = body.result
      assert.deepEqual([duration_s, named], [seconds, model.name])
      assert.match(language, spoken)
      assert.equal(
        fullText,
        segments
          .map((segment: { text: string }) => segment.text)
          .join('')
          .trim(),
      )
      for (const { start, end, no_speech_prob: quiet } of segments) {
        assert.ok(start >= 0 && start <= end && end <= seconds, `${start} ${end}`)
        assert.ok(quiet >= 0 && quiet <= 1)
      }
    }
  })

  it('fetches uploads for a warm model without a workflow, and queues tasks beyond a few concurrent ones', async () => {
    const url = await upload(wav(2))
    const alone = await infer({ audio_url: url })
    const together = await Promise.all(Array.from({ length: 7 }, () => infer({ audio_url: url })))

    assert.equal(alone.body.status, 'succeeded', alone.text)
    await assert.rejects(world.workflow(alone.body.task_id).describe(), WorkflowNotFoundError)
    for (const { body, text } of together) {
      assert.equal(body.status, 'succeeded', text)
      assert.equal(body.result.duration_s, 2)
    }
    const stored = await world.task(alone.body.task_id)
    assert.deepEqual(stored.result, alone.body.result)
  })

  it('returns no text for silence', async () => {
    const { body, text } = await infer({ audio_url: dataUrl(wav(4, { silent: true })) })

    assert.equal(body.status, 'succeeded', text)
    assert.deepEqual([body.result.text, body.result.segments], ['', []])
    assert.equal(body.result.duration_s, 4)
  })

  it('reports invalid audio, and serves the next request', async () => {
    const short = dataUrl(wav(1))
    const cases = [
      [{ audio_url: dataUrl(Buffer.from('a text and no sound')) }, /audio_url must be audio/],
      [{ audio_url: dataUrl(wav(0)) }, /audio_url contains no audio/],
      [{ audio_url: dataUrl(wav(1_801, { rate: 1_000 })) }, /audio_url is longer than 30 minutes/],
      [{ audio_url: 'https://10.0.0.1/a.wav' }, /audio_url/],
      [{ audio_url: 'https://10.0.0.1/a%zz.wav' }, /audio_url/],
      [{ audio_url: short, language: 'klingon' }, /language must be one that this model supports/],
    ] as const
    for (const [input, sentence] of cases) {
      const { body, text } = await infer(input)

      assert.equal(body.status, 'failed', text.slice(0, 300))
      assert.match(body.message, sentence)
    }
    for (const input of [{}, { audio_url: 5 }, { audio_url: short, task: 'sing' }])
      assert.equal((await infer(input)).status, 422)
    assert.equal((await infer({ audio_url: short })).body.status, 'succeeded')
  })
})
