import assert from 'node:assert/strict'
import { type Body, CSV, DATASETS, DatasetApi, form } from '../../../../support/servers/dataset-api.ts'

describe('dataset upload', () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  for (const fileFirst of [false, true]) {
    it(`accepts a file that is sent ${fileFirst ? 'before' : 'after'} its fields`, async () => {
      const answer = await on.upload({ name: 'people', storage_format: 'csv' }, { text: CSV }, { fileFirst })

      assert.equal(answer.status, 201, answer.text)
      const { dataset_id, created_at, ...rest } = answer.body
      assert.deepEqual(rest, {
        dataset_name: 'people',
        status: 'ready',
        storage_format: 'csv',
        num_samples: 2,
        total_size_bytes: CSV.length,
      })
      const { body } = await on.call('GET', `/${dataset_id}`)
      assert.equal(body.created_at, created_at)
      assert.equal(body.account_id, on.accountId)
      assert.deepEqual(body.columns, [
        { name: 'age', type: 'integer' },
        { name: 'name', type: 'string' },
      ])
    })
  }

  it('rejects a file that does not match its format, with the line, and stores the reason', async () => {
    const answer = await on.upload({ name: 'bad', storage_format: 'jsonl' }, { text: '{"a":1}\n{"a":\n' })

    assert.equal(answer.status, 422)
    assert.equal(answer.body.error.code, 'validation_failed')
    assert.match(answer.body.detail[0].msg, /^line 2: not valid JSON/)
    const { body } = await on.call('GET', `/${answer.body.error.details.dataset_id}`)
    assert.equal(body.status, 'failed')
    assert.match(body.error_message, /^line 2:/)
    assert.deepEqual(await on.objectsOf(body.dataset_id), [])
  })

  it('reports the actual kind of a file and the accepted ones, without quoting its bytes', async () => {
    const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
    const columns = '\x15\x04\x15,\x15\x04\x15'
    const taken =
      'storage_format accepts csv and jsonl (text in UTF-8), parquet, and hf_dataset (a zip or tar.gz of a saved dataset)'
    for (const [storage_format, content, what] of [
      ['csv', `PAR1${columns},${columns}\n`, 'a Parquet file, not csv'],
      ['jsonl', `PAR1${columns}`, 'a Parquet file, not jsonl'],
      ['hf_dataset', `PAR1${columns}`, 'a Parquet file, not hf_dataset'],
      ['csv', 'PK\x03\x04\x14,\x14\n', 'a zip archive, not csv'],
      ['parquet', 'PK\x03\x04\x14,\x14\n', 'a zip archive, not parquet'],
      ['csv', '\x7fELF\x02\x01\0\0,\0,\0\n1', 'a binary file, not csv'],
      ['jsonl', '\x7fELF\x02\x01\0\0', 'a binary file, not jsonl'],
    ] as const) {
      const answer = await on.upload({ name: 'bad', storage_format }, { text: bytes(content) })

      assert.equal(answer.status, 422)
      assert.equal(answer.body.detail[0].msg, `this is ${what}; ${taken}`)
    }
    const utf16 = await on.upload({ name: 'bad', storage_format: 'jsonl' }, { text: bytes('{\0"\0a\0"\0') })
    assert.match(utf16.body.detail[0].msg, /UTF-16/)
    const cut = await on.upload({ name: 'bad', storage_format: 'parquet' }, { text: bytes(`PAR1${columns}`) })
    assert.match(cut.body.detail[0].msg, /^the file is not Parquet/)
  })

  it('rejects column names and quoted text that the database cannot store, instead of retrying forever', async () => {
    const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
    for (const [storage_format, content, reason] of [
      ['csv', 'a\0,b\n1,2\n', /^line 1: holds the character NUL \(is it UTF-16\?\)$/],
      ['csv', '\0a\0,\0b\0\n\x001\0,\x002\0\n', /^line 1: holds the character NUL/],
      ['jsonl', '{"a\\u0000":1}\n', /^the name of column 1 holds the character NUL/],
      ['jsonl', '{"a\\ud800":1}\n', /^line 1: not valid JSON \(half of a surrogate pair\)$/],
      ['jsonl', `${'{"a":1}\n'.repeat(200)}\0\0\0\n`, /^line 201: not valid JSON/],
    ] as const) {
      const answer = await on.upload({ name: 'bad', storage_format }, { text: bytes(content) })

      assert.equal(answer.status, 422, JSON.stringify(content.slice(-20)))
      assert.match(answer.body.detail[0].msg, reason)
    }
  })

  it('reports the usual error for text that merely starts like another kind of file', async () => {
    const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
    for (const content of ['PAR1,PAR2\n1,2\n1,2,3\n', 'ARROW1,b\n1,2\n1,2,3\n', 'a,b\n1,2\nx\0y,9,3\n']) {
      const { body } = await on.upload({ name: 'bad', storage_format: 'csv' }, { text: bytes(content) })
      assert.match(body.detail[0].msg, /^line 3: 3 fields where the header has 2/)
    }
  })

  it('reports what a form lacks and leaves no files behind', async () => {
    const before = await Array.fromAsync(on.api.services.objects.list(`incoming/${on.accountId}/`))
    const wrong: [Parameters<typeof form>, RegExp][] = [
      [[{ storage_format: 'csv' }, { text: CSV }, { fileFirst: true }], /name/],
      [[{ name: 'x', storage_format: 'xml' }, { text: CSV }], /storage_format/],
      [[{ name: 'x', storage_format: 'csv' }], /file/],
      [
        [
          { name: 'x', storage_format: 'csv' },
          { text: CSV, part: 'data' },
        ],
        /one file, named file/,
      ],
    ]
    for (const [parts, expected] of wrong) {
      const answer = await on.upload(...parts)
      assert.equal(answer.status, 422)
      assert.match(JSON.stringify(answer.body.detail), expected)
    }
    assert.deepEqual(await Array.fromAsync(on.api.services.objects.list(`incoming/${on.accountId}/`)), before)
  })

  it('rejects files over 100 MB, declared or not, and points to the flow for larger files', async () => {
    const text = new Uint8Array(101 * 1024 * 1024).fill(97)
    const { raw, headers } = await form({ name: 'big', storage_format: 'csv' }, { text })
    const streamed = new ReadableStream({
      start(controller) {
        for (let i = 0; i < raw.length; i += 1 << 20) controller.enqueue(raw.subarray(i, i + (1 << 20)))
        controller.close()
      },
    })

    const declared = await on.api.call<Body>('POST', `${DATASETS}/upload`, { key: on.key, raw, headers })
    const undeclared = await fetch(`${on.api.baseUrl}${DATASETS}/upload`, {
      method: 'POST',
      headers: { ...headers, 'x-api-key': on.key },
      body: streamed,
      duplex: 'half',
    } as RequestInit)

    assert.equal(declared.status, 413)
    assert.match(declared.body.error.message, /uploads\/init/)
    assert.equal(undeclared.status, 413)
    assert.deepEqual(await Array.fromAsync(on.api.services.objects.list(`incoming/${on.accountId}/`)), [])
  })

  it('answers 400 to a form that cannot be parsed and 415 to any other content type', async () => {
    const cut = (await form({ name: 'x', storage_format: 'csv' }, { text: CSV })).raw.slice(0, -40)
    const { headers } = await form({ name: 'x' })
    const url = `${DATASETS}/upload`

    assert.equal((await on.api.call('POST', url, { key: on.key, raw: cut, headers })).status, 400)
    assert.equal(
      (
        await on.api.call('POST', url, {
          key: on.key,
          raw: CSV,
          headers: { 'content-type': 'multipart/form-data' },
        })
      ).status,
      400,
    )
    assert.equal((await on.api.call('POST', url, { key: on.key, body: { name: 'x' } })).status, 415)
  })
})
