import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { GrowingPayload, wholeSource } from '../../../node-runtime/edges/growing-payload.ts'
import type { EdgeAttempt } from '../../../node-runtime/edges/payload.ts'
import { until } from '../../support/assertions/until.ts'
import {
  admit,
  MB,
  newAttempt,
  openTwoNodes,
  sha256Of,
  storeBytes,
  type TwoNodes,
} from '../../support/builders/cohorts/edges.ts'

const WINDOW = MB / 4

describe('a payload that is handed over while it is produced', () => {
  let nodes: TwoNodes
  before(async () => (nodes = await openTwoNodes()))
  after(() => nodes[Symbol.asyncDispose]())

  const take = (at: EdgeAttempt, maxBytes = 50 * MB) => {
    const seen = { frames: 0, bytes: 0 }
    const payload = nodes.consumer.receiveFrames(
      { ...at, ...admit(nodes.server, at) },
      {
        maxBytes,
        windowBytes: WINDOW,
        signal: AbortSignal.timeout(30_000),
        onTaken: ({ acknowledged: frames, bytes }) => Object.assign(seen, { frames, bytes }),
      },
    )
    payload.catch(() => {})
    return { seen, payload }
  }

  it('arrives batch by batch, and is the same at both ends', async () => {
    const at = newAttempt()
    const batches = Array.from({ length: 5 }, () => randomBytes(300_000))
    await using growing = await GrowingPayload.begin(nodes.producer.store)
    await nodes.producer.sendFrames(at, growing, WINDOW)
    const { seen, payload } = take(at)

    let sent = 0
    for (const batch of batches) {
      await growing.append(batch)
      sent += batch.length
      await until(() => seen.bytes === sent)
    }
    using made = await growing.finish()
    using taken = await payload

    assert.equal(taken.sha256, sha256Of(Buffer.concat(batches)))
    assert.deepEqual([made.sha256, made.sizeBytes], [taken.sha256, sent])
    // More frames than batches, because no frame is larger than the window.
    assert.ok(seen.frames > batches.length, `${seen.frames} frames`)
  })

  it('is read from the file by a consumer that arrives when it is complete', async () => {
    const at = newAttempt()
    const bytes = randomBytes(3 * MB)
    using whole = await storeBytes(nodes.producer.store, bytes)
    await nodes.producer.sendFrames(at, wholeSource(whole), WINDOW)

    using taken = await take(at).payload

    assert.equal(taken.sha256, sha256Of(bytes))
  })

  it('leaves nothing at either end when it is not completed', async () => {
    const at = newAttempt()
    const used = () => [nodes.producer, nodes.consumer].map(({ store }) => store.usedBytes)
    const before = used()
    {
      await using growing = await GrowingPayload.begin(nodes.producer.store)
      await nodes.producer.sendFrames(at, growing, WINDOW)
      const { seen, payload } = take(at)
      await growing.append(randomBytes(1_000))
      await until(() => seen.bytes === 1_000)
      await growing[Symbol.asyncDispose]()

      await assert.rejects(payload, (err) => (err as { failure?: string }).failure === 'refused')
    }
    assert.deepEqual(used(), before)
  })

  it('ends when it exceeds the agreed size', async () => {
    const at = newAttempt()
    await using growing = await GrowingPayload.begin(nodes.producer.store)
    await nodes.producer.sendFrames(at, growing, WINDOW)
    const { payload } = take(at, 1_000)

    await growing.append(randomBytes(1_001))

    await assert.rejects(payload, (err) => (err as { failure?: string }).failure === 'size_mismatch')
  })
})
