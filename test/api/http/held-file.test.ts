import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import Type from 'typebox'
import { request } from 'undici'
import { jsonWithFile, readBufferedFile } from '../../../api/http/bodies/buffered-file.ts'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { callOf, formOf } from '../../support/builders/forms.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const MIB = 1024 * 1024
const LIMIT = { maxBytes: 3 * MIB }

const keep = route({
  operationId: 'keep',
  summary: 'Answer with the JSON text of a form',
  method: 'POST',
  path: '/keep',
  auth: 'none',
  stream: { contentTypes: ['multipart/form-data'], file: LIMIT },
  success: { status: 200, schema: Type.Object({}, { additionalProperties: true }) },

  async handler(request) {
    const form = { file: 'file', limit: LIMIT, fields: Type.Object({ name: Type.Optional(Type.String()) }) }
    const { fields, file } = await readBufferedFile(request, form)
    return JSON.parse(jsonWithFile(fields, 'file', file).toString()) as object
  },
})
const pieces = route({
  operationId: 'pieces',
  summary: 'Answer with the number of pieces in which a file is held',
  method: 'POST',
  path: '/pieces',
  auth: 'none',
  stream: { contentTypes: ['multipart/form-data'], file: LIMIT },
  success: { status: 200, schema: Type.Object({ pieces: Type.Integer() }) },

  async handler(request) {
    const { file } = await readBufferedFile(request, { file: 'file', limit: LIMIT, fields: Type.Object({}) })
    return { pieces: file.base64.length }
  },
})
const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [keep, pieces] },
]

describe('form files in memory', () => {
  let api: TestApi
  before(async () => {
    // Callers without an account share a small part of the memory.
    api = await startApi({ families, env: { HEARTH_BODY_MEMORY_MB: '64' } })
  })
  after(() => api[Symbol.asyncDispose]())

  async function send(bytes: Buffer<ArrayBuffer>, fields: Record<string, string> = {}) {
    const form = formOf({ ...fields, file: bytes }, 'a.bin')
    return api.call('POST', '/api/builder/v1/keep', await callOf(form))
  }
  const bytes = (size: number): Buffer<ArrayBuffer> =>
    Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 7) % 251))

  it('become data: URLs of exactly their bytes, along with the fields', async () => {
    for (const size of [1, 2, 3, 4, 200_000, 200_001, 200_002]) {
      const { status, body } = await send(bytes(size), { name: 'x"y' })

      assert.equal(status, 200)
      assert.equal(body.name, 'x"y')
      const [head, base64] = body.file.split(',')
      assert.equal(head, 'data:application/octet-stream;base64')
      assert.deepEqual(Buffer.from(base64, 'base64'), bytes(size))
    }
    assert.deepEqual(Object.keys((await send(bytes(1))).body), ['file'])
  })

  it('are stored in few pieces, however small the received chunks', async () => {
    const { raw, headers } = await callOf(formOf({ file: bytes(100_000) }, 'a.bin'))
    const pendingResponse = request(`${api.baseUrl}/api/builder/v1/pieces`, {
      method: 'POST',
      headers,
      body: Readable.from(
        (function* chunks() {
          for (let at = 0; at < raw.length; at += 30) yield raw.subarray(at, at + 30)
        })(),
      ),
    })

    assert.deepEqual(await (await pendingResponse).body.json(), { pieces: 3 })
  })

  it('hold memory only until the response', async () => {
    for (let i = 0; i < 10; i++) assert.equal((await send(bytes(MIB))).status, 200)
  })

  it('are rejected when they are empty or do not fit right now', async () => {
    const empty = await send(bytes(0))
    const large = await send(bytes(2 * MIB))

    assert.equal(empty.status, 422)
    assert.deepEqual(empty.body.detail[0].loc, ['body', 'file'])
    assert.deepEqual([large.status, large.body.error.code], [503, 'no_capacity'])
  })
})
