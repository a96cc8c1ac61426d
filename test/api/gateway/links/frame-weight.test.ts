import assert from 'node:assert/strict'
import { checkFrameJson } from '../../../../api/gateway/links/frame-weight.ts'
import { readHello, readLogs, readMetrics, readState } from '../../../../api/gateway/links/reports.ts'
import { newId } from '../../../../domain/ids.ts'

describe('a frame from a node', () => {
  const namesOf = (count: number) =>
    Buffer.from(`{${Array.from({ length: count }, (_, nth) => `"${nth.toString(36)}":0`).join()}}`)
  const listOf = (body: Buffer) => Buffer.concat([Buffer.from('['), body, Buffer.from(']')])

  it('is rejected before parsing when it has too many names or nests too deeply', () => {
    const names = namesOf(100_000)
    for (const read of [
      () => readState({ body: names }),
      () => readHello({ body: names }),
      () => readLogs({ body: listOf(names) }),
      () => readMetrics({ body: listOf(names) }),
      () => checkFrameJson(namesOf(6_000)),
      () => checkFrameJson(Buffer.from(`${'['.repeat(10_000)}${']'.repeat(10_000)}`)),
    ])
      assert.throws(read, {
        name: 'LinkProtocolError',
        message: /too many different member names|too deeply/,
      })
  })

  it('may report a thousand models and a megabyte of logs', () => {
    const models = Array.from({ length: 1_000 }, (_, nth) => ({
      model_key: `m-${nth}`,
      state: 'warm',
      in_flight: 0,
      memory_mb: nth,
    }))
    const lines = Array.from({ length: 2_000 }, (_, seq) => ({
      job_id: newId(),
      attempt: 1,
      seq,
      at: '2026-01-01T00:00:00Z',
      message: 'x'.repeat(300),
    }))

    checkFrameJson(Buffer.from(JSON.stringify({ report: { models } })))
    assert.equal(readLogs({ body: Buffer.from(JSON.stringify(lines)) }).length, 2_000)
  })
})
