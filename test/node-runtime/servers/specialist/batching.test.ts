import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import {
  convertSpecialist,
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
} from '../../../support/builders/models/tiny-specialist.ts'
import { type SpecialistServer, startSpecialist } from '../../../support/servers/nodes/specialist.ts'

const WORDS = 'the quick brown fox jumps over the lazy dog what is capital of france'.split(' ')
const textOf = (words: number, from = 0) =>
  Array.from({ length: words }, (_, i) => WORDS[(i * 7 + from) % WORDS.length]).join(' ')
/** Mostly short inputs and some long ones, always the same. */
const mixed = (count: number) =>
  Array.from({ length: count }, (_, i) => textOf(i % 10 === 0 ? 90 : 1 + ((i * 13) % 24), i))

const peakMb = ({ pid }: SpecialistServer): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

async function serve(model: TinySpecialist = {}): Promise<SpecialistServer> {
  const folder = await tinySpecialist(model)
  return startSpecialist(folder, await convertSpecialist(folder))
}

/** Takes noticeable time for each text. */
const SLOW: TinySpecialist = { hidden: 256, layers: 6 }

describe('the queue of a specialist server', function () {
  this.timeout(600_000)
  before(requireSpecialist)

  it('gives each of 32 clients the same results that its texts would get alone, whatever their length', async () => {
    await using server = await serve()
    const texts = mixed(160)
    const alone = new Map<string, number[]>()
    for (const text of new Set(texts)) alone.set(text, (await server.ask({ text })).body.embedding)

    let next = 0
    const client = async () => {
      for (let text = texts[next++]; text !== undefined; text = texts[next++]) {
        const { status, body } = await server.ask({ text })

        assert.equal(status, 200)
        const expected = alone.get(text) ?? []
        assert.ok(body.embedding.every((value: number, i: number) => Math.abs(value - expected[i]!) < 1e-5))
      }
    }
    await Promise.all(Array.from({ length: 32 }, client))
    const bulk = await server.ask({ text: texts })

    for (const [i, text] of texts.entries())
      for (const [at, value] of (alone.get(text) ?? []).entries())
        assert.ok(Math.abs(bulk.body.embeddings[i][at] - value) < 1e-5)
  })

  it('answers short requests while a long one is running', async () => {
    await using server = await serve(SLOW)
    const startedAt = performance.now()
    let bulkMs = 0
    const bulk = server.ask({ text: mixed(1_000) }).then((answer) => {
      bulkMs = performance.now() - startedAt
      return answer
    })
    const waits: number[] = []
    for (let i = 0; i < 10; i++) {
      const began = performance.now()
      const { status } = await server.ask({ text: textOf(5 + i) })
      assert.equal(status, 200)
      waits.push(performance.now() - began)
      assert.equal(bulkMs, 0, 'the long request finished before the short ones')
    }

    assert.equal((await bulk).body.embeddings.length, 1_000)
    assert.ok(Math.max(...waits) < bulkMs / 4, `${Math.max(...waits)} of ${bulkMs} ms`)
  })

  it('drops the texts of a caller that has left', async () => {
    await using server = await serve(SLOW)
    const texts = mixed(600)
    const began = performance.now()
    await server.ask({ text: texts })
    const wholeMs = performance.now() - began

    const disconnect = new AbortController()
    const cancelled = server.ask({ text: [...texts, ...texts, ...texts] }, 'embeddings', disconnect.signal)
    setTimeout(() => disconnect.abort(), 50)
    await assert.rejects(cancelled)
    const again = performance.now()
    await server.ask({ text: texts })

    assert.ok(performance.now() - again < 1.6 * wholeMs, `${performance.now() - again} of ${wholeMs} ms`)
  })

  it('stays within its memory for any input', async () => {
    await using server = await serve(SLOW)
    await server.ask({ text: mixed(64) })
    const before = peakMb(server)

    for (let round = 0; round < 3; round++)
      await Promise.all(Array.from({ length: 32 }, (_, i) => server.ask({ text: mixed(20 + i) })))
    await server.ask({ text: Array.from({ length: 400 }, () => 'a '.repeat(5_000)) })

    assert.ok(peakMb(server) < before + 100, `${before} MB before, ${peakMb(server)} MB after`)
  })

  it('rejects requests while too many are waiting', async () => {
    await using server = await serve(SLOW)
    const disconnect = new AbortController()
    const text = Array.from({ length: 2_048 }, () => textOf(200))
    const pendingAnswers = Array.from({ length: 24 }, () =>
      server.ask({ text }, 'embeddings', disconnect.signal),
    )

    const { status, body } = await Promise.race(pendingAnswers)
    disconnect.abort()
    await Promise.allSettled(pendingAnswers)

    assert.equal(status, 503)
    assert.match(body.error.message, /Too many requests are waiting/)
    assert.equal((await server.ask({ text: 'Hello' })).status, 200)
  })

  it('aborts every request at once when the server is killed', async () => {
    await using server = await serve(SLOW)
    const pendingAnswers = Array.from({ length: 8 }, () => server.ask({ text: mixed(500) }))
    setTimeout(() => server.kill(), 100)

    const ends = await Promise.allSettled(pendingAnswers)

    assert.ok(ends.every(({ status }) => status === 'rejected'))
  })
})
