import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { hearth as client } from '../../client/index.ts'
import { until } from '../support/assertions/until.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { DatasetApi } from '../support/servers/dataset-api.ts'

describe('hearth datasets', () => {
  let on: DatasetApi
  let hearth: HearthRunner
  before(async () => {
    on = await DatasetApi.start()
    hearth = new HearthRunner({ HEARTH_BASE_URL: on.api.baseUrl, HEARTH_API_KEY: on.key })
  })
  after(async () => {
    hearth?.[Symbol.dispose]()
    await on?.[Symbol.asyncDispose]()
  })

  const file = (name: string, text: string): string => {
    writeFileSync(join(hearth.folder, name), text)
    return name
  }
  const uploads = () => {
    const folder = join(hearth.folder, 'hearth', 'uploads')
    return existsSync(folder) ? readdirSync(folder) : []
  }

  it('uploads a file with progress output, shows its first rows, lists and deletes it by name', async () => {
    const uploaded = await hearth.run([
      'datasets',
      'upload',
      file('people.csv', 'age,name\n31,Ada\n45,Grace\n'),
    ])
    const listed = await hearth.run(['datasets', 'ls'])
    await hearth.run(['datasets', 'upload', file('zoo.csv', 'age\n31\n')])
    const names = async (...args: string[]) =>
      (await hearth.json(['datasets', 'ls', ...args])).map(
        ({ dataset_name }: { dataset_name: string }) => dataset_name,
      )
    assert.deepEqual(await names(), ['zoo', 'people'])
    assert.deepEqual(await names('--sort', 'name'), ['zoo', 'people'])
    assert.deepEqual(await names('--sort', 'name', '--order', 'asc'), ['people', 'zoo'])
    assert.deepEqual(await names('--order', 'asc'), ['people', 'zoo'])
    await hearth.run(['datasets', 'rm', 'zoo'])
    const head = await hearth.run(['datasets', 'head', 'people', '-n', '1'])
    const rows = await hearth.json(['datasets', 'head', 'people'])
    const removed = await hearth.run(['datasets', 'rm', 'people'])

    assert.match(uploaded.out, /^Dataset [-0-9a-f]{36} \(people\): 2 rows, 25 B\.\n$/, uploaded.err)
    assert.match(uploaded.err, /people\.csv 100 % \(25 B of 25 B/)
    assert.match(listed.out, /people +ready +csv +2 +25 B/)
    assert.match(head.out, /^age \(integer\) +name \(string\)\n31 +Ada\n2 rows in total\.\n$/)
    assert.deepEqual(rows.rows, [
      [31, 'Ada'],
      [45, 'Grace'],
    ])
    assert.equal(removed.code, 0, removed.err)
    assert.deepEqual(await hearth.json(['datasets', 'ls']), [])
    assert.deepEqual(uploads(), [])
  })

  it('resumes an interrupted upload when the command is repeated', async () => {
    const name = file('late.csv', `age,name\n${'31,Ada\n'.repeat(1_000)}`)
    await using store = await hangingStore()
    const env = { HEARTH_BASE_URL: store.through(on.api.baseUrl) }
    const upload = ['datasets', 'upload', name, '--name', 'late']
    const first = hearth.start(upload, { env })
    await until(() => store.puts() > 0)
    first.kill('SIGINT')
    const [code] = await once(first, 'exit')
    const [pending] = await client({ baseUrl: on.api.baseUrl, apiKey: on.key })
      .datasets.list({ status: 'pending' })
      .all()
    assert.equal(code, 130)
    assert.equal(uploads().length, 1)
    store.letThrough()

    const second = await hearth.run(upload, { env })

    assert.equal(second.code, 0, second.err)
    assert.match(second.err, new RegExp(`resuming the upload of dataset ${pending?.dataset_id}`))
    assert.match(second.out, new RegExp(`^Dataset ${pending?.dataset_id} \\(late\\): 1000 rows`))
    assert.deepEqual(uploads(), [])
  })

  for (const [fault, args, pattern, exit] of [
    ['a missing file', ['upload', 'nowhere.csv'], /nowhere\.csv: no such file/, 2],
    ['a folder', ['upload', '.'], /\. is not a file/, 2],
    [
      'a file name with an unknown extension',
      ['upload', 'x.txt'],
      /cannot infer the format from the file name; pass --format csv/,
      2,
    ],
    ['an unknown format', ['upload', 'x.txt', '--format', 'xlsx'], /csv, jsonl, parquet/, 2],
    [
      'a file that is not in the declared format',
      ['upload', 'x.txt', '--format', 'parquet'],
      /validation_failed/,
      2,
    ],
    ['an unknown dataset', ['head', 'nobody'], /no dataset is named nobody; .*datasets ls/, 2],
    ['too many rows', ['head', '01980000-0000-7000-8000-000000000000', '-n', '99'], /limit/, 2],
    ['an unknown status', ['ls', '--status', 'gone'], /pending, ready, failed/, 2],
  ] as const) {
    it(`explains how to fix ${fault}`, async () => {
      file('x.txt', 'not a table')
      const { code, err } = await hearth.run(['datasets', ...args])
      assert.equal(code, exit, err)
      assert.match(err, pattern)
      assert.ok(!err.includes('    at '), err)
    })
  }
})

/** Starts a proxy in front of a gateway; PUTs hang until the test releases them. */
async function hangingStore() {
  let target = ''
  let puts = 0
  let isOpen = false
  const server: Server = createServer((req, res) => {
    if (req.method === 'PUT') {
      puts++
      if (!isOpen) return
    }
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const headers = Object.entries(req.headers).filter(
        ([name]) => !/^(host|connection|transfer-encoding|content-length)$/.test(name),
      )
      const body = Buffer.concat(chunks)
      const init = {
        method: req.method ?? 'GET',
        headers: headers as [string, string][],
        ...(body.length > 0 && { body }),
      }
      void fetch(`${target}${req.url}`, init).then(async (answer) => {
        const { port } = server.address() as AddressInfo
        const text = (await answer.text()).replaceAll(target, `http://127.0.0.1:${port}`)
        res
          .writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' })
          .end(text)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    puts: () => puts,
    letThrough: () => void (isOpen = true),
    through(baseUrl: string): string {
      target = baseUrl
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
