import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI, { toFile } from 'openai'
import { GENERATIVE_TASK_TYPES } from '../../../../domain/task-types/generative.ts'
import { callOf, formOf, type Parts } from '../../../support/builders/forms.ts'
import { requireGenerative } from '../../../support/builders/models/tiny-generative.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import { requireOpenaiClient, startPythonClient } from '../../../support/servers/clients/openai-python.ts'
import { GenerativeWorld } from '../../../support/servers/worlds/generative-world.ts'

const MIB = 1024 * 1024
const PNG = '89504e470d0a1a0a'
const GRADIENT = String(GENERATIVE_TASK_TYPES['image-to-3d']?.warmup_input?.image_url)
const picture = (): Buffer<ArrayBuffer> => Buffer.from(GRADIENT.split(',')[1] ?? '', 'base64')
const ONE_PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
/** Our own fields, which the clients pass through. */
const QUICK = { num_inference_steps: 2, seed: 7 }

describe('the OpenAI image API', function () {
  this.timeout(300_000)
  const stack = new AsyncDisposableStack()
  let world: GenerativeWorld
  before(requireGenerative)
  before(requireOpenaiClient)
  before(async () => {
    world = stack.use(await GenerativeWorld.start())
    await world.import('painter', 'text-to-image', { kind: 'stable-diffusion' })
    await world.import('retoucher', 'image-to-image', { kind: 'stable-diffusion' })
    await world.import('blank', 'text-to-image', { kind: 'stable-diffusion', fault: 'flat' })
    await world.import('voices', 'text-to-speech', { kind: 'vits' })
  })
  after(() => stack.disposeAsync())

  const client = () => {
    const { api, key } = world.on
    return new OpenAI({ baseURL: `${api.baseUrl}/v1`, apiKey: key, maxRetries: 3 }).images
  }
  const file = () => toFile(picture(), 'picture.png', { type: 'image/png' })
  const bytesOf = (base64: string | undefined): Buffer => Buffer.from(base64 ?? '', 'base64')
  const fetched = async (url: string | undefined): Promise<Buffer> => {
    const answer = await fetch(url ?? '')
    assert.equal(answer.status, 200)
    return Buffer.from(await answer.arrayBuffer())
  }
  const inferred = async (name: string, input: object): Promise<Buffer> => {
    const { status, message, result } = await world.ask(name, input)
    assert.equal(status, 'succeeded', message)
    return fetched(result.output_artifacts[0].url)
  }
  async function postForm(path: string, parts: Parts) {
    const form = formOf(parts, 'picture.png')
    return world.on.api.call('POST', path, { key: world.on.key, ...(await callOf(form)) })
  }
  const post = (body: object) =>
    world.on.api.call('POST', '/v1/images/generations', { key: world.on.key, body })

  it('returns the same image as infer, in the response only', async () => {
    const prompt = 'a red ball'
    const before = await world.outputs()
    const imageRequest = { model: 'painter', prompt, size: '64x64', ...QUICK } as const
    const { data: made, response } = await client()
      .generate(imageRequest as never)
      .withResponse()
    const after = await world.outputs()
    const bytes = bytesOf(made.data?.[0]?.b64_json)

    const same = await inferred('painter', {
      prompt,
      width: 64,
      height: 64,
      num_inference_steps: 2,
      seed: 7,
    })
    assert.deepEqual(bytes, same)
    assert.equal(bytes.subarray(0, 8).toString('hex'), PNG)
    assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [64, 64])
    const { created, output_format, size, seed } = made as typeof made & { seed: number }
    assert.deepEqual([output_format, size, seed, made.data?.length], ['png', '64x64', 7, 1])
    assert.ok(Math.abs(created - Date.now() / 1_000) < 60)
    assert.deepEqual(after, before)
    const task = await world.on.task(response.headers.get('x-hearth-task-id') ?? '')
    assert.deepEqual([task.status, task.result], ['succeeded', null])
  })

  it('makes several images, each with its own seed', async () => {
    const one = async (seed: number, n = 1) => {
      const imageRequest = { model: 'painter', prompt: 'a', n, size: '64x64', num_inference_steps: 2, seed }
      const { data = [] } = await client().generate(imageRequest as never)
      return data.map(({ b64_json }) => b64_json)
    }
    const many = await one(7, 3)

    assert.deepEqual(many, [...(await one(7)), ...(await one(8)), ...(await one(9))])
    assert.equal(new Set(many).size, 3)
  })

  it('returns URLs, and the task signs new ones', async () => {
    const imageRequest = {
      model: 'painter',
      prompt: 'a',
      n: 2,
      size: '64x64',
      response_format: 'url',
      ...QUICK,
    }
    const { data: made, response } = await client()
      .generate(imageRequest as never)
      .withResponse()
    const id = response.headers.get('x-hearth-task-id') ?? ''
    await sleep(1_100)
    const { status, result } = await world.on.task(id)

    const { data = [] } = made
    assert.equal(status, 'succeeded')
    assert.equal(data.length, 2)
    assert.equal(result.metadata.seed, 7)
    for (const [i, artifact] of result.output_artifacts.entries()) {
      assert.equal(data[i]?.b64_json, undefined)
      assert.notEqual(artifact.url, data[i]?.url)
      const bytes = await fetched(data[i]?.url)
      assert.deepEqual(bytes, await fetched(artifact.url))
      assert.equal(artifact.size_bytes, bytes.length)
      const hours = (Date.parse(artifact.expires_at) - Date.now()) / 3_600_000
      assert.ok(hours > 23.9 && hours <= 24)
    }
  })

  it('edits images and makes variations', async () => {
    const changed = { model: 'retoucher', image: await file(), ...QUICK, strength: 0.9 }
    const edit = await client().edit({ ...changed, prompt: 'in winter' } as never)
    const variation = await client().createVariation({
      ...changed,
      image: await file(),
      response_format: 'url',
      size: '64x64',
    } as never)

    const input = { image_url: GRADIENT, num_inference_steps: 2, seed: 7, strength: 0.9 }
    assert.deepEqual(
      bytesOf(edit.data?.[0]?.b64_json),
      await inferred('retoucher', { ...input, prompt: 'in winter' }),
    )
    assert.deepEqual(
      await fetched(variation.data?.[0]?.url),
      await inferred('retoucher', { ...input, width: 64, height: 64 }),
    )
  })

  it('serves the Python client', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'picture.png')
    await writeFile(path, picture())
    await using python = await startPythonClient(`${world.on.api.baseUrl}/v1`)
    const call = (name: string, options: object) => python.call(name, world.on.key, options)
    const more = { size: '64x64', extra_body: QUICK }

    const painted = await call('paint', { model: 'painter', prompt: 'a red ball', n: 2, ...more })
    const edited = await call('edit', { model: 'retoucher', prompt: 'a', path, ...more })
    const varied = await call('vary', { model: 'retoucher', path, response_format: 'url', ...more })

    for (const made of [painted, edited] as { b64_json: string }[][])
      for (const { b64_json } of made) assert.equal(bytesOf(b64_json).subarray(0, 8).toString('hex'), PNG)
    assert.equal((painted as unknown[]).length, 2)
    const [{ url }] = varied as [{ url: string }]
    assert.equal((await fetched(url)).subarray(0, 8).toString('hex'), PNG)
  })

  it('stops generating when the client disconnects', async () => {
    const leaving = new AbortController()
    const long = { model: 'painter', prompt: 'a', size: '64x64', num_inference_steps: 900 }
    const pendingImages = client().generate(long as never, { signal: leaving.signal, maxRetries: 0 })
    const rejection = assert.rejects(pendingImages)
    await sleep(1_500)
    leaving.abort()
    await rejection
    const leftAt = performance.now()

    assert.equal((await post({ ...long, num_inference_steps: 1 })).status, 200)
    assert.ok(performance.now() - leftAt < 3_000, 'the rest of 900 steps takes longer')
  })

  it('restarts the generation when the model server is killed', async () => {
    const long = { model: 'painter', prompt: 'a', size: '64x64', num_inference_steps: 150, seed: 7 }
    const quick = await client().generate({ ...long, num_inference_steps: 1 } as never)
    assert.equal(quick.data?.length, 1)
    const pendingResponse = post(long)
    await sleep(1_000)
    const { running } = world.node.parts.driver
    const [server] = running.filter(({ name }) => /^model-(painter|retoucher)/.test(name))
    const pid = await server?.pid()
    assert.ok(pid)
    process.kill(pid, 'SIGKILL')
    const { status, text } = await pendingResponse

    assert.equal(status, 200, text.slice(0, 300))
    const whole = { prompt: 'a', width: 64, height: 64, num_inference_steps: 150, seed: 7 }
    assert.deepEqual(bytesOf(JSON.parse(text).data[0].b64_json), await inferred('painter', whole))
  })

  it('rejects invalid fields by name, and keeps serving', async () => {
    const whole = { model: 'painter', prompt: 'a', size: '64x64', num_inference_steps: 1 }
    const cases: [object, number, string][] = [
      [{ ...whole, model: undefined }, 422, 'model'],
      [{ ...whole, model: 'nobody' }, 404, 'nobody'],
      [{ ...whole, model: 'voices' }, 404, 'not for generating images'],
      [{ ...whole, prompt: '' }, 422, 'prompt'],
      [{ ...whole, prompt: ['a'] }, 422, 'prompt'],
      [{ ...whole, n: 0 }, 422, 'n'],
      [{ ...whole, n: 11 }, 422, 'n'],
      [{ ...whole, n: 5, size: '2048x2048' }, 422, 'n'],
      [{ ...whole, size: 'large' }, 422, 'size'],
      [{ ...whole, size: '60x64' }, 422, 'size'],
      [{ ...whole, size: '64x4096' }, 422, 'size'],
      [{ ...whole, response_format: 'file' }, 422, 'response_format'],
      [{ ...whole, output_format: 'webp' }, 422, 'output_format'],
      [{ ...whole, stream: true }, 422, 'stream'],
      [{ ...whole, strength: 0.5 }, 422, 'strength'],
    ]
    for (const [body, status, named] of cases) {
      const answer = await post(body)

      assert.equal(answer.status, status, `${named} ${answer.text.slice(0, 300)}`)
      const { message, param } = answer.body.error
      assert.ok(message.includes(named), message)
      if (status === 422) assert.equal(param.split('.')[0], named, message)
    }
    assert.equal((await post(whole)).status, 200)
  })

  it('rejects invalid form parts by name', async () => {
    const whole = { model: 'retoucher', prompt: 'a', image: picture() }
    const { image: _, ...without } = whole
    const cases: [Parts, number, string][] = [
      [without, 422, 'image'],
      [{ ...without, picture: picture() }, 422, 'picture'],
      [{ ...whole, image: Buffer.alloc(0) }, 422, 'image'],
      [{ ...whole, image: Buffer.from('a text and no picture') }, 422, 'image'],
      [{ ...whole, image: ONE_PIXEL }, 422, 'image'],
      [{ ...whole, image: Buffer.alloc(25 * MIB + 1) }, 413, '25 MB'],
      [{ ...whole, mask: picture() }, 422, 'mask'],
      [{ ...whole, size: '64' }, 422, 'size'],
      [{ ...whole, size: '60x60' }, 422, 'size'],
      [{ ...whole, n: 'two' }, 422, 'n'],
      [{ ...whole, response_format: 'png' }, 422, 'response_format'],
      [{ ...whole, model: 'painter' }, 404, 'not for editing images'],
    ]
    for (const path of ['/v1/images/edits', '/v1/images/variations']) {
      for (const [parts, status, named] of cases) {
        const answer = await postForm(path, parts)

        assert.equal(answer.status, status, `${Object.keys(parts).join()} ${answer.text.slice(0, 300)}`)
        const { message, param } = answer.body.error
        assert.ok(message.includes(named), message)
        if (status === 422) assert.equal(param, named, message)
      }
      const malformed = await world.on.api.call('POST', path, {
        key: world.on.key,
        raw: new TextEncoder().encode('--x\r\nno form'),
        headers: { 'content-type': 'multipart/form-data; boundary=x' },
      })
      assert.equal(malformed.status, 400)
    }
    const { prompt: __, ...bare } = whole
    assert.equal((await postForm('/v1/images/edits', bare)).body.error.param, 'prompt')
    assert.equal((await postForm('/v1/images/variations', bare)).status, 200)
  })

  it('answers 422, which clients do not retry, when the output is not a valid image', async () => {
    const { status, body, headers } = await post({ model: 'blank', prompt: 'a', size: '64x64', ...QUICK })

    assert.equal(status, 422)
    assert.match(body.error.message, /one value throughout/)
    const task = await world.on.task(String(headers['x-hearth-task-id']))
    assert.deepEqual([task.status, task.error], ['failed', body.error.message])
  })
})
