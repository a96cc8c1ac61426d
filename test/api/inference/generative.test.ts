import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { newId } from '../../../domain/ids.ts'
import { GENERATIVE_TASK_TYPES } from '../../../domain/task-types/generative.ts'
import { until } from '../../support/assertions/until.ts'
import { requireGenerative, type TinyGenerative } from '../../support/builders/models/tiny-generative.ts'
import { pngOf } from '../../support/builders/png.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { GenerativeWorld } from '../../support/servers/worlds/generative-world.ts'

const SMALL = { width: 64, height: 64 }
const PICTURE = String(GENERATIVE_TASK_TYPES['image-to-3d']?.warmup_input?.image_url)
const pictureBytes = () => Buffer.from(PICTURE.split(',')[1] ?? '', 'base64')

/** The first bytes of files of each type. */
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

  it('return files with URLs that are new on each read and valid for a day', async () => {
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

  it('generate the same image for the same seed, and a different one for another seed', async () => {
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

  it('report every step as `generating`, with its percentage', async () => {
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

  it('stop within one step of a cancellation, leave no files, and serve the next request', async () => {
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

  it('reject input that the pipeline does not support, naming the field', async () => {
    const refusals: [object, RegExp][] = [
      [
        { prompt: 'a', width: 60, height: 64 },
        /^width must be a multiple of 8 for this model, and 60 is not$/,
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

  it('complete a task exactly once and leave no files when the model server is killed', async () => {
    const before = await world.outputs()
    const id = await world.queue('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 80 })
    await until(async () => (await world.on.task(id)).status === 'generating')
    const { driver, workDir } = world.node.parts
    const [server] = driver.running.filter(({ name }) => name.startsWith('model-pictures'))
    process.kill((await server?.pid()) ?? 0, 'SIGKILL')

    await until(async () => (await world.on.task(id)).completed_at !== null, 200_000)

    const { status, error, result } = await world.on.task(id)
    assert.equal(status, 'succeeded', error)
    assert.equal(result.output_artifacts.length, 1)
    assert.equal((await world.outputs()).length, before.length + 1)
    assert.deepEqual(await readdir(workDir), [])
  })

  it('stop when their node loses the task, which completes on its next attempt', async () => {
    const before = await world.outputs()
    const id = await world.queue('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 80 })
    await until(async () => (await world.on.task(id)).status === 'generating')
    const { db } = world.on.api.database
    await db.updateTable('lease').set({ state: 'expired' }).where('subject_id', '=', id).execute()

    await until(async () => (await world.on.task(id)).completed_at !== null, 200_000)

    assert.equal((await world.on.task(id)).status, 'succeeded')
    const { attempt } = await db
      .selectFrom('task')
      .select('attempt')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    assert.equal(attempt, 2)
    assert.equal((await world.outputs()).length, before.length + 1)
    await until(async () => (await readdir(world.node.parts.workDir)).length === 0)
  })

  it('hide their files, like their tasks, from other accounts', async () => {
    const { task_id } = await world.ask('pictures', { prompt: 'a', ...SMALL, num_inference_steps: 1 })
    const other = await world.on.api.account()
    const path = `/api/builder/v1/tasks/${task_id}`
    assert.equal((await world.on.api.call('GET', path, { key: other.key })).status, 404)
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
    [
      'image-to-image',
      'stable-diffusion',
      { image_url: PICTURE, prompt: 'a', num_inference_steps: 3 },
      'image/png',
      ['width', 'height'],
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

  it('reject image-to-image when the strength leaves no steps to run', async () => {
    const once = { image_url: PICTURE, prompt: 'a', num_inference_steps: 4 }

    const none = await world.ask('image-to-image', { ...once, strength: 0.1 })
    const one = await world.ask('image-to-image', { ...once, strength: 0.25 })

    assert.equal(
      none.message,
      'num_inference_steps times strength must be at least 1, and 4 times 0.1 is less',
    )
    assert.equal(one.status, 'succeeded', one.message)
  })

  it('reject files that are not images or cannot be fetched, and keep serving', async () => {
    const inBase64 = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`
    const sound = await world.upload('image-to-image', Buffer.from('RIFF....WAVE'), 'audio/wav')
    const another = (await world.upload('image-to-image', pictureBytes())).replaceAll(
      world.on.accountId,
      newId(),
    )
    const refusals: [string, RegExp][] = [
      [inBase64(Buffer.from('no picture')), /^image_url must be an image in PNG, JPEG or WebP$/],
      [inBase64(pngOf(1, 1)), /^image_url is an image of 1 x 1; each side needs at least 16 pixels$/],
      [inBase64(pngOf(40_000, 30_000)), /^image_url is an image of 40000 x 30000; at most 64 million pixels/],
      [sound, /^image_url must be an image/],
      [another, /^image_url could not be fetched: the URL must begin with https/],
      ['https://127.0.0.1/a.png', /^image_url could not be fetched: the host must be a name, not an address/],
      ['https://localhost/a.png', /^image_url could not be fetched: /],
      ['file:///etc/passwd', /^image_url could not be fetched: the URL must begin with https/],
    ]
    for (const [image_url, expected] of refusals) {
      const { status, message } = await world.ask('image-to-image', {
        image_url,
        prompt: 'a',
        num_inference_steps: 2,
      })
      assert.equal(status, 'failed', image_url.slice(0, 100))
      assert.match(message, expected)
    }

    const fine = await world.ask('image-to-image', {
      image_url: PICTURE,
      prompt: 'a',
      num_inference_steps: 2,
    })
    assert.equal(fine.status, 'succeeded', fine.message)
  })

  it('fail the task with an error when the output is not a valid image', async () => {
    await world.import('nan', 'text-to-image', { kind: 'stable-diffusion', fault: 'nan' })

    const { status, message } = await world.ask('nan', { prompt: 'a', ...SMALL, num_inference_steps: 1 })

    const reason = 'the model generated image data with values that are not finite numbers'
    assert.deepEqual([status, message], ['failed', reason])
  })
})
