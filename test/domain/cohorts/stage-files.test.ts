import assert from 'node:assert/strict'
import { fileAddress, filesNamedIn, isFileAddress, withUrls } from '../../../domain/cohorts/stages/files.ts'
import { newId } from '../../../domain/ids.ts'

describe('stage file addresses', () => {
  const stage = newId()
  const files = Array.from({ length: 12 }, (_, i) => ({ address: fileAddress(stage, i) }))
  const [, first] = files
  const eleventh = files[11]

  it('identify one file each, wherever they appear in a value', () => {
    const value = { text: `see ${first?.address}, and`, deep: [{ url: eleventh?.address }] }

    assert.deepEqual(filesNamedIn(JSON.stringify(value), files), [first, eleventh])
    assert.deepEqual(filesNamedIn(undefined, files), [])
  })

  it('become signed URLs with their expiry next to them; unknown addresses are left alone', () => {
    const unknown = fileAddress(newId(), 0)
    const signed = { url: 'https://hearth.example/1?signature', expires_at: '2026-01-02T00:00:00.000Z' }
    const address = String(first?.address)

    const shown = withUrls(
      { made: [{ url: address, size_bytes: 1 }], url: unknown, text: `at ${address}`, none: null },
      new Map([[address, signed]]),
    )

    assert.deepEqual(shown, {
      made: [{ ...signed, size_bytes: 1 }],
      url: unknown,
      text: `at ${signed.url}`,
      none: null,
    })
  })

  it('count as a file to fetch only when they are the whole string', () => {
    const address = fileAddress(stage, 3)

    assert.deepEqual([address, ` ${address}`, `${address}/x`, 'https://a.example/'].map(isFileAddress), [
      true,
      false,
      false,
      false,
    ])
  })
})
