import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import { readMultipart } from '../../../api/http/bodies/multipart.ts'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const MAX = 1024 * 1024
const LIMIT = { maxBytes: MAX, hint: '; use the other flow' }
const seen = { failed: 0, discarded: 0 }

const upload = route({
  operationId: 'upload',
  summary: 'Count the bytes of a file',
  method: 'POST',
  path: '/upload',
  auth: 'none',
  stream: { contentTypes: ['multipart/form-data'], file: LIMIT },
  success: { status: 200, schema: Type.Object({}, { additionalProperties: true }) },

  async handler({ req }) {
    const { fields, file } = await readMultipart(req, {
      file: 'file',
      limit: LIMIT,
      fields: Type.Object({
        name: Type.String({ minLength: 1 }),
        rows: Type.Optional(Type.Integer()),
        'tags[]': Type.Optional(Type.Array(Type.String())),
      }),
      async consume({ stream, filename, contentType }) {
        let bytes = 0
        try {
          for await (const chunk of stream) bytes += (chunk as Buffer).length
        } catch (err) {
          seen.failed += 1
          throw err
        }
        return { bytes, filename, contentType }
      },
      discard: async () => void (seen.discarded += 1),
    })
    return { ...fields, ...file }
  },
})

const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [upload] },
]
const PATH = '/api/builder/v1/upload'
const BOUNDARY = 'xxBOUNDARYxx'

interface Part {
  name: string
  value: string | Buffer
  filename?: string
}

function form(parts: readonly Part[], end = `--${BOUNDARY}--\r\n`): Buffer {
  const chunks = parts.flatMap(({ name, value, filename }) => [
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '\r\n\r\n' : `; filename="${filename}"\r\nContent-Type: text/csv\r\n\r\n`,
    value,
    '\r\n',
  ])
  return Buffer.concat([...chunks, end].map((chunk) => Buffer.from(chunk as string)))
}

describe('multipart forms', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ families })
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(() => Object.assign(seen, { failed: 0, discarded: 0 }))

  const send = (raw: Buffer | NodeJS.ReadableStream, type = `multipart/form-data; boundary=${BOUNDARY}`) =>
    api.call('POST', PATH, { raw, headers: { 'content-type': type } })
  const file = { name: 'file', value: 'a,b\n1,2\n', filename: 'C:\\data\\täble.csv' }

  it('stream the file and accept fields before and after it', async () => {
    const { status, body } = await send(
      form([{ name: 'name', value: 'x' }, file, { name: 'rows', value: '7' }]),
    )

    assert.equal(status, 200)
    assert.deepEqual(body, { name: 'x', rows: 7, bytes: 8, filename: 'täble.csv', contentType: 'text/csv' })
  })

  it('get 422 for a missing or invalid field, and the processed file is discarded', async () => {
    const missing = await send(form([file]))
    const wrong = await send(form([{ name: 'name', value: 'x' }, { name: 'rows', value: 'many' }, file]))

    assert.deepEqual([missing.status, wrong.status], [422, 422])
    assert.deepEqual(missing.body.detail[0].loc, ['body', 'name'])
    assert.deepEqual(wrong.body.detail[0].loc, ['body', 'rows'])
    assert.equal(seen.discarded, 2)
  })

  it('collect the parts of a list, and reject any other field that is given twice', async () => {
    const parts = [{ name: 'name', value: 'x' }, file, { name: 'tags[]', value: 'a' }]
    const list = await send(form([...parts, { name: 'tags[]', value: 'b' }]))
    const twice = await send(form([...parts, { name: 'name', value: 'x' }]))

    assert.deepEqual(list.body['tags[]'], ['a', 'b'])
    assert.equal(twice.status, 422)
    assert.deepEqual(twice.body.detail[0].loc, ['body', 'name'])
    assert.equal(seen.discarded + seen.failed, 1)
  })

  it('are accepted exactly up to their limits', async () => {
    const sent = (fileBytes: number, fieldBytes: number) =>
      send(
        form([
          { name: 'name', value: 'n'.repeat(fieldBytes) },
          { ...file, value: Buffer.alloc(fileBytes, 97) },
        ]),
      )

    const whole = await sent(MAX, 64 * 1024)
    assert.deepEqual([whole.status, whole.body.bytes], [200, MAX])
    assert.equal((await sent(MAX + 1, 1)).status, 413)
    assert.equal((await sent(1, 64 * 1024 + 1)).status, 422)
  })

  it('get 422 without a file, and with two', async () => {
    const none = await send(form([{ name: 'name', value: 'x' }]))
    const two = await send(form([{ name: 'name', value: 'x' }, file, file]))

    assert.deepEqual([none.status, two.status], [422, 422])
    assert.deepEqual(none.body.detail[0].loc, ['body', 'file'])
  })

  it('report all field errors when the file is missing too', async () => {
    const { status, body } = await send(form([{ name: 'other', value: 'x' }]))

    assert.equal(status, 422)
    const places = body.detail.map(({ loc }: { loc: unknown[] }) => loc.at(-1))
    assert.deepEqual(places.slice(0, 2), ['file', 'name'])
  })

  it('are rejected when the file has another field name, even when they end in the middle of the file', async () => {
    const data = { name: 'data', value: 'a,b\n1,2\n', filename: 'a.csv' }
    const whole = form([{ name: 'name', value: 'x' }, data])
    const cut = await send(whole.subarray(0, -BOUNDARY.length))
    const large = await send(form([{ ...data, value: Buffer.alloc(900_000, 97) }]))

    assert.deepEqual([cut.status, large.status], [422, 422])
    assert.deepEqual(cut.body.detail[0].loc, ['body', 'data'])
  })

  it('get 413 with a hint for a file over the limit while the client is still sending', async () => {
    const head = form([{ name: 'name', value: 'x' }], '')
    const start = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`
    async function* parts(): AsyncGenerator<Buffer> {
      yield Buffer.concat([head, Buffer.from(start)])
      for (let i = 0; i < 400; i++) yield Buffer.alloc(64 * 1024, 97)
      yield Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
    }
    const { status, body } = await send(Readable.from(parts()))

    assert.equal(status, 413)
    assert.match(body.error.message, /1 MB \(1048576 bytes\); use the other flow$/)
    assert.equal(seen.failed, 1)
  })

  it('get 400 when truncated or without a boundary, and 415 when the body is not a form', async () => {
    assert.equal((await send(form([{ name: 'name', value: 'x' }, file], ''))).status, 400)
    assert.equal((await send(form([file]), 'multipart/form-data')).status, 400)
    assert.equal((await send(form([file]), 'application/json')).status, 415)
  })

  it('are rejected when they have too many fields or a field that is too long', async () => {
    const many = Array.from({ length: 100 }, (_, i) => ({ name: `f${i}`, value: 'x' }))
    assert.equal((await send(form([...many, file]))).status, 422)
    assert.equal((await send(form([{ name: 'name', value: 'x'.repeat(100_000) }, file]))).status, 422)
  })

  it('treat a field called __proto__ as an ordinary field', async () => {
    const { status, body } = await send(
      form([{ name: '__proto__', value: 'x' }, { name: 'name', value: 'y' }, file]),
    )

    assert.equal(status, 200)
    assert.equal(body.name, 'y')
  })

  it('stop being read when the client disconnects', async () => {
    const socket = connect(Number(new URL(api.baseUrl).port), '127.0.0.1')
    await once(socket, 'connect')
    const body = form([{ name: 'name', value: 'x' }, file], '')
    socket.write(
      `POST ${PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=${BOUNDARY}\r\ncontent-length: 100000\r\n\r\n`,
    )
    socket.write(body.subarray(0, body.length - 4))
    await sleep(50)
    socket.destroy()

    await until(() => seen.failed === 1, SOON_MS)
  })
})
