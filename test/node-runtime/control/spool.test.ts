import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Spool } from '../../../node-runtime/control/spool.ts'
import { FRAME, type LogEntry, MAX_CHUNK } from '../../../schemas/nodes/link.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { until } from '../../support/servers/nodes/node.ts'

/** Stores batches, and acknowledges them on demand. */
class Sink {
  readonly batches: { kind: number; ackedThrough: number; messages: string[]; bytes: number }[] = []

  sendBatch(kind: number, ackedThrough: number, body: Buffer): void {
    const entries = JSON.parse(body.toString()) as LogEntry[]
    this.batches.push({
      kind,
      ackedThrough,
      messages: entries.map(({ message }) => message),
      bytes: body.length,
    })
  }

  get messages(): string[] {
    return this.batches.flatMap(({ messages }) => messages)
  }
}

describe('the spool', () => {
  let folder: ReturnType<typeof temporaryFolder>
  beforeEach(() => {
    folder = temporaryFolder()
  })
  afterEach(() => folder[Symbol.dispose]())

  it('sends reports in order, one batch at a time, and drops them once acknowledged', async () => {
    const spool = new Spool({ dir: folder.path })
    const sink = new Sink()
    spool.attach(sink)
    const report = spool.job('j', 1)
    report.log('one')
    report.log('two')
    await until(() => sink.batches.length === 1)
    report.log('three')
    await sleep(60)
    assert.deepEqual(sink.messages, ['one', 'two'])

    spool.acknowledge(sink.batches[0]!.ackedThrough)

    await until(() => sink.batches.length === 2)
    assert.deepEqual(sink.messages, ['one', 'two', 'three'])
    spool.acknowledge(sink.batches[1]!.ackedThrough)
    assert.equal(spool.pending, 0)
    assert.deepEqual(readdirSync(folder.path), [])
    spool.close()
  })

  it('resends over another link any batches that the first link did not acknowledge', async () => {
    const spool = new Spool({ dir: folder.path })
    const [first, second] = [new Sink(), new Sink()]
    spool.attach(first)
    spool.job('j', 1).log('kept')
    await until(() => first.batches.length === 1)

    spool.detach(first)
    spool.attach(second)

    await until(() => second.messages.includes('kept'))
    spool.close()
  })

  it('resends unacknowledged batches after a restart', async () => {
    const before = new Spool({ dir: folder.path })
    const report = before.job('j', 1)
    report.log('line')
    report.metric(3, { train_loss: 0.5, val_loss: null })
    before.close()

    const spool = new Spool({ dir: folder.path })
    const sink = new Sink()
    spool.attach(sink)

    await until(() => sink.batches.length === 1)
    assert.equal(sink.batches[0]!.kind, FRAME.log)
    spool.acknowledge(sink.batches[0]!.ackedThrough)
    await until(() => sink.batches.length === 2)
    assert.equal(sink.batches[1]!.kind, FRAME.metric)
    spool.acknowledge(sink.batches[1]!.ackedThrough)
    assert.equal(await spool.flush({ timeoutMs: 100 }), true)
    assert.deepEqual(readdirSync(folder.path), [])
    spool.close()
  })

  it('keeps each batch within one frame', async () => {
    const spool = new Spool({ dir: folder.path })
    const sink = new Sink()
    const report = spool.job('j', 1)
    for (let i = 0; i < 100; i++) report.log('ü'.repeat(3_000))
    spool.attach(sink)
    while (spool.pending) {
      const seen = sink.batches.length
      await until(() => sink.batches.length > seen)
      spool.acknowledge(sink.batches.at(-1)!.ackedThrough)
    }

    assert.equal(sink.messages.length, 100)
    assert.ok(sink.batches.every(({ bytes }) => bytes <= MAX_CHUNK))
    spool.close()
  })

  it('drops the oldest log lines above its limit, reports that, and keeps every metric', async () => {
    const spool = new Spool({ dir: folder.path, maxBytes: 20_000 })
    const report = spool.job('j', 1)
    report.metric(0, { train_loss: 1, val_loss: 1 })
    for (let i = 0; i < 1_000; i++) report.log(`line ${i}`)
    assert.ok(spool.pending < 300)
    const sink = new Sink()
    spool.attach(sink)
    while (spool.pending) {
      const seen = sink.batches.length
      await until(() => sink.batches.length > seen)
      spool.acknowledge(sink.batches.at(-1)!.ackedThrough)
    }

    assert.ok(sink.batches.some(({ kind }) => kind === FRAME.metric))
    assert.ok(
      sink.messages.some((message) =>
        /log lines up to here were dropped because no gateway accepted them/.test(message ?? ''),
      ),
    )
    assert.equal(sink.messages.at(-1), 'line 999')
    spool.close()
  })

  it('reports that it could not be flushed in time', async () => {
    const spool = new Spool({ dir: folder.path })
    spool.job('j', 1).log('nobody listens')

    assert.equal(await spool.flush({ timeoutMs: 50 }), false)
    spool.close()
  })

  it('keeps working when the disk rejects writes, and uses the disk again once it recovers', async () => {
    const dir = join(folder.path, 'spool')
    const spool = new Spool({ dir })
    const sink = new Sink()
    rmSync(dir, { recursive: true })
    const report = spool.job('j', 1)

    report.log('not on disk')
    report.log('neither')
    spool.attach(sink)
    await until(() => sink.messages.length === 2)
    mkdirSync(dir)
    await sleep(1_050)
    report.log('on disk again')

    assert.equal(readdirSync(dir).length, 1)
    spool.close()
  })
})
