import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildSnapshots, keyIdOf } from '../support/builders/memory.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'

describe('hearth memory', () => {
  let api: TestApi
  let folder: ReturnType<typeof temporaryFolder>
  before(async () => {
    api = await startApi({ env: { HEARTH_MEMORY: '1', HEARTH_MEMORY_ENTRIES: '2500' } })
    folder = temporaryFolder()
  })
  after(async () => {
    folder?.[Symbol.dispose]()
    await api?.[Symbol.asyncDispose]()
  })

  function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    const env = {
      ...BARE_ENV,
      HEARTH_DATA_DIR: folder.path,
      HEARTH_BASE_URL: api.baseUrl,
      HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
    }
    return new Promise((resolve) => {
      execFile(process.execPath, ['cli/hearth.ts', 'memory', ...args], { env }, (err, out, errText) =>
        resolve({ code: err ? Number(err.code ?? 1) : 0, out, err: errText }),
      )
    })
  }
  const file = async (content: string): Promise<string> => {
    const path = join(folder.path, 'entries.jsonl')
    await writeFile(path, content)
    return path
  }
  const texts = async (key: string): Promise<string[]> => {
    const { body } = await api.call('GET', '/api/builder/v1/memory/entries', { key })
    return body.entries.map(({ text, source }: { text: string; source: string }) => `${source}: ${text}`)
  }

  it('imports the entries of an export that are still recalled, and rejects binary files', async () => {
    const { accountId, key } = await api.account()
    await run('enable', accountId)
    const lines = [
      { text: 'old', superseded_by: '0198c3f0-5b1e-7c41-9d27-3a64f1d0a8e2' },
      { text: 'new', superseded_by: null },
    ]

    const imported = await run(
      'import',
      await file(lines.map((line) => JSON.stringify(line)).join('\n')),
      accountId,
    )
    const control = await run('import', await file('a\u0007b'), accountId)
    const path = join(folder.path, 'binary')
    await writeFile(path, Buffer.from([0x61, 0xff, 0xfe]))
    const binary = await run('import', path, accountId)

    assert.match(imported.out, /Imported 1 entr/)
    assert.deepEqual(
      (await texts(key)).map((text) => text.split(': ')[1]),
      ['new'],
    )
    assert.match(control.err, /line 1: contains control characters/)
    assert.match(binary.err, /is not UTF-8 text/)
  })

  it('enables, grants, imports, revokes, disables and deletes memory', async () => {
    const { accountId, key } = await api.account()
    const keyId = await keyIdOf(api, key)

    const enabled = await run('enable', accountId)
    const granted = await run('grant', keyId, 'read')
    const entries = ['{"text": "from JSON", "source": "crm"}', '', 'a plain line']
    const imported = await run('import', await file(entries.join('\n')), accountId, '--source', 'notes')
    await buildSnapshots(api)
    const status = await run('status', accountId)
    const revoked = await run('revoke', keyId, 'read')
    const disabled = await run('disable', accountId)
    const list = await run('list')
    const stored = await texts(key)
    const deleted = await run('delete', accountId)

    assert.match(enabled.out, /provisioning, 0 entries/)
    assert.match(granted.out, /may read/)
    assert.match(imported.out, /Imported 2 entries/)
    assert.match(status.out, new RegExp(`ready, 2 entries[^]*${keyId} may read`))
    assert.match(revoked.out, /no longer read/)
    assert.match(disabled.out, /disabled/)
    assert.match(list.out, new RegExp(`${accountId} +disabled +2 +0`))
    assert.deepEqual(stored.toSorted(), ['crm: from JSON', 'notes: a plain line'])
    assert.match(deleted.out, /^Deleted the memory of /)
    assert.deepEqual(await texts(key), [])
  })

  it('imports more entries than fit into one request', async () => {
    const { accountId, key } = await api.account()
    await run('enable', accountId)
    const lines = Array.from({ length: 1_203 }, (_, i) => `line ${i}`)

    const imported = await run('import', await file(lines.join('\n')), accountId)

    assert.match(imported.out, /Imported 1203/)
    const { text } = await api.call('GET', '/api/builder/v1/memory/export', { key })
    assert.equal(text.trim().split('\n').length, 1_203)
  })

  it('names the rejected line, and imports only new entries of a file the second time', async () => {
    const { accountId, key } = await api.account()
    await run('enable', accountId)
    const lines = Array.from({ length: 600 }, (_, i) => `line ${i}`)
    const late = [...lines, '', '{"text": "x", "created_at": "yesterday"}']
    const early = ['fine', '', '{"text": "x", "source": 5}']

    const first = await run('import', await file(late.join('\n')), accountId)
    const second = await run('import', await file(early.join('\n')), accountId)
    const repeated = await run('import', await file(lines.join('\n')), accountId)

    assert.match(first.err, /first 500 entries of .* were imported, then: .*, line 602: created_at: /)
    assert.match(second.err, /entries.jsonl, line 3: source: /)
    assert.match(repeated.out, /Imported 100 entries. 500 already existed./)
    assert.equal(
      (await api.call('GET', '/api/builder/v1/memory/export', { key })).text.trim().split('\n').length,
      600,
    )
  })

  it('reports how many entries were imported when not all of them fit', async () => {
    const { accountId } = await api.account()
    await run('enable', accountId)
    const lines = Array.from({ length: 2_600 }, (_, i) => `line ${i}`)

    const { code, err } = await run('import', await file(lines.join('\n')), accountId)

    assert.notEqual(code, 0)
    assert.match(err, /first 2500 entries of .* were imported, then: .*at most 2500/)
  })

  it('rejects invalid arguments before sending anything', async () => {
    const { accountId } = await api.account()

    for (const [args, pattern] of [
      [['grant', 'nobody', 'read'], /is not an id/],
      [['grant', accountId, 'own'], /read or write/],
      [['grant', accountId, 'read'], /no live key/],
      [['status', accountId], /no memory; enable it first/],
      [['import', join(folder.path, 'absent'), accountId], /cannot be read/],
      [['import', await file('fine\n{"text": ""}'), accountId], /line 2: the text must have 1 to/],
    ] as const) {
      const { code, err } = await run(...args)
      assert.notEqual(code, 0)
      assert.match(err, pattern)
    }
  })
})
