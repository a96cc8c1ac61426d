import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { newId } from '../../../domain/ids.ts'
import { underLease } from '../../../node-runtime/training/job-lease.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode } from '../../support/servers/nodes/node.ts'

describe('memory for jobs', function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const isLoaded = ({ parts }: TestNode, key: string) => parts.models.startState(key) === 'resident'
  const stopping = () => new AbortController().signal

  it('comes from as few idle models as possible, whose processes exit before the job starts', async () => {
    await using node = await startNode(api, { memoryMb: 300, ballastMb: 70 })
    const { models, driver, memory, workDir } = node.parts
    const [old, fresh] = [await addModel(api, { name: 'old' }), await addModel(api, { name: 'fresh' })]
    await models.load(old)
    await models.load(fresh)
    models.use(fresh)?.[Symbol.dispose]()
    await mkdir(workDir, { recursive: true })
    const lines: string[] = []
    let seen: object | undefined

    await underLease(
      { ...node.parts, stopping },
      {
        claim: { job_id: 'job', lease_token: newId(), attempt: 1 },
        report: { log: (line: string) => void lines.push(line), metric() {} },
        pausing: new AbortController().signal,
        cancelled: stopping(),
        leaseS: 60,
        memoryMb: 200,
      },
      async () => {
        const held = [memory.heldBy('job'), memory.heldBy(old)]
        seen = {
          held,
          old: isLoaded(node, old),
          fresh: isLoaded(node, fresh),
          running: driver.running.length,
        }
      },
    )

    assert.deepEqual(seen, { held: [200, 0], old: false, fresh: true, running: 1 })
    assert.equal(memory.heldBy('job'), 0)
  })

  it('is never taken from a busy or pinned model, and the shortfall is reported', async () => {
    const pinned = await addModel(api, { name: 'pinned' })
    await using node = await startNode(api, { memoryMb: 400, ballastMb: 70, pinned: [pinned] })
    const { models } = node.parts
    const [busy, idle] = [await addModel(api, { name: 'busy' }), await addModel(api, { name: 'idle' })]
    await Promise.all([pinned, busy, idle].map((key) => models.load(key)))
    using _use = models.use(busy)

    const missing = await models.memoryAllocator.reserveUpTo('job', 350)

    assert.deepEqual(
      [pinned, busy, idle].map((key) => isLoaded(node, key)),
      [true, true, false],
    )
    const held = node.parts.memory.heldBy(pinned) + node.parts.memory.heldBy(busy)
    assert.equal(missing, 350 - (400 - held))
    models.memoryAllocator.release('job')
    assert.equal(node.parts.memory.freeMb, 400 - held)
  })
})
