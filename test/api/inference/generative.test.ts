import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { GENERATIVE_TASK_TYPES } from '../../../domain/task-types/generative.ts'
import { until } from '../../support/assertions/until.ts'
import { requireGenerative, type TinyGenerative } from '../../support/builders/tiny-generative.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { GenerativeWorld } from '../../support/servers/generative-world.ts'

const SMALL = { width: 64, height: 64 }
const PICTURE = String(GENERATIVE_TASK_TYPES['image-to-3d']?.warmup_input?.image_url)
const pictureBytes = () => Buffer.from(PICTURE.split(',')[1] ?? '', 'base64')

/** How files of each type begin. */
const BEGINNINGS: Record<string, string> = {
  'image/png': '89504e47',
  'audio/wav': '52494646',
  'video/mp4': '00000020667479',
  'model/gltf-binary': '676c5446',
}

describe('generative models (4.5)', function () {
  this.timeout(240_000)
  let world: GenerativeWorld
  before(requireGenerative)
  before(async () => {
    world = await GenerativeWorld.start()
    await world.import('pictures', 'text-to-image', { kind: 'stable-diffusion' })
  })
  after(() => world?.[Symbol.asyncDispose]())

  const bytesOf = async (artifact: AnyBody): Promise<Buffer> => {
    const { statusCode, body } = await request(artifact.url)
    assert.equal(statusCode, 200)
    return Buffer.from(await body.arrayBuffer())
  }

  it('answer with files whose addresses are new at each read and valid for a day', async () => {
    const input = { prompt: 'a ball', ...SMALL, num_inference_steps: 3, seed: 7 }
    const { task_id, status, result } = await world.ask('pictures', input)

    assert.equal(status, 'succeeded')
    const { task_type, seed, steps, ...size } = result.metadata
    assert.deepEqual([task_type, seed, steps, size.width, size.height], ['text-to-image', 7, 3, 64, 64])
    const [artifact] = result.output_artifacts
    const bytes = await bytesOf(artifact)
    assert.deepEqual(
      [artifact.filename, artifact.content_type, artifact.modality, artifact.size_bytes],
      ['image.png', 'image/png', 'image', bytes.length],
    )
    const hours = (Date.parse(artifact.expires_at) - Date.now()) / 3_600_000
    assert.ok(hours > 23.9 && hours <= 24, `${hours} hours`)
    await sleep(1_100)
    const [later] = (await world.on.task(task_id)).result.output_artifacts
    assert.notEqual(later.url, artifact.url)
    assert.deepEqual(await bytesOf(later), bytes)
  })

  it('make the same again with the same seed, and something else with another', async () => {
    const made = async (seed: number) => {
      const { result } = await world.ask('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 2, seed })
      return createHash('sha256')
        .update(await bytesOf(result.output_artifacts[0]))
        .digest('hex')
    }

    const [first, again, other] = [await made(1), await made(1), await made(2)]

    assert.equal(first, again)
    assert.notEqual(first, other)
  })

  it('tell every step as generating, with its percentage', async () => {
    const id = await world.queue('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 40 })
    const seen: AnyBody[] = []
    await until(async () => {
      const { status, status_detail } = await world.on.task(id)
      if (status === 'generating') seen.push(status_detail)
      return status === 'succeeded'
    })

    assert.ok(seen.length > 0)
    const { status, progress_pct, metadata } = seen.at(-1)
    assert.equal(status, 'generating')
    assert.equal(metadata.total_steps, 40)
    assert.equal(progress_pct, Math.floor((100 * metadata.step) / 40))
  })

  it('end within a step of a cancel, leave no file, and serve the next request', async () => {
    const before = await world.outputs()
    const id = await world.queue('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 900 })
    await until(async () => (await world.on.task(id)).status === 'generating')
    const { api, key } = world.on
    await api.call('POST', `/api/builder/v1/tasks/${id}:cancel`, { key })
    const cancelledAt = performance.now()

    const next = await world.ask('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 1 })

    assert.equal(next.status, 'succeeded')
    assert.ok(performance.now() - cancelledAt < 5_000, 'the rest of 900 steps takes longer')
    assert.deepEqual(
      [(await world.on.task(id)).status, (await world.on.task(id)).error],
      ['failed', 'cancelled by the caller'],
    )
    assert.equal((await world.outputs()).length, before.length + 1)
  })

  it('refuse what the pipeline cannot do, naming the field', async () => {
    const refusals: [object, RegExp][] = [
      [
        { prompt: 'a', width: 60, height: 64 },
        /^width must be a multiple of 8 for this model, and 60 is none$/,
      ],
      [{ prompt: 'a', ...SMALL, num_inference_steps: 0 }, /num_inference_steps/],
      [{ prompt: 'a', width: 4_096 }, /width/],
      [{}, /prompt/],
    ]
    for (const [input, expected] of refusals) {
      const { api, key } = world.on
      const path = '/api/builder/v1/endpoints/pictures/infer'
      const { status, body } = await api.call('POST', path, { key, body: { input } })
      assert.match(status === 422 ? JSON.stringify(body.detail) : body.message, expected)
    }
  })

  const others: [string, TinyGenerative['kind'], object, string, string[]][] = [
    [
      'text-to-video',
      'ltx',
      { prompt: 'a', ...SMALL, num_frames: 9, num_inference_steps: 2 },
      'video/mp4',
      ['num_frames', 'fps'],
    ],
    [
      'text-to-speech',
      'vits',
      { text: 'hello world', voice_preset: '2' },
      'audio/wav',
      ['sample_rate', 'duration_s', 'voice'],
    ],
    [
      'text-to-audio',
      'musicgen',
      { prompt: 'waves', duration_s: 0.5 },
      'audio/wav',
      ['sample_rate', 'duration_s'],
    ],
    [
      'text-to-3d',
      'shap-e',
      { prompt: 'a chair', num_inference_steps: 2 },
      'model/gltf-binary',
      ['vertices', 'faces'],
    ],
    [
      'image-to-image',
      'stable-diffusion',
      { image_url: PICTURE, prompt: 'a', num_inference_steps: 3 },
      'image/png',
      ['width', 'height'],
    ],
    [
      'image-to-3d',
      'shap-e-image',
      { image_url: PICTURE, num_inference_steps: 2 },
      'model/gltf-binary',
      ['vertices', 'faces'],
    ],
    [
      'image-to-video',
      'svd',
      { image_url: PICTURE, ...SMALL, num_frames: 2, num_inference_steps: 1 },
      'video/mp4',
      ['num_frames', 'fps'],
    ],
  ]
  for (const [task, kind, input, type, facts] of others) {
    it(`serve ${task}`, async () => {
      await world.import(task, task, { kind })
      const takesFile = 'image_url' in input
      const sent = takesFile ? { ...input, image_url: await world.upload(task, pictureBytes()) } : input

      const { status, message, result } = await world.ask(task, { ...sent, seed: 3 })

      assert.equal(status, 'succeeded', message)
      const [artifact] = result.output_artifacts
      const bytes = await bytesOf(artifact)
      assert.equal(artifact.content_type, type)
      assert.ok(bytes.toString('hex').startsWith(BEGINNINGS[type] ?? '?'), bytes.toString('hex', 0, 16))
      assert.deepEqual([result.metadata.task_type, result.metadata.seed], [task, 3])
      for (const fact of facts) assert.ok(fact in result.metadata, fact)
    })
  }
})
