import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, it } from 'mocha'
import { eventually } from '../support/assertions/until.ts'
import { requireGenerative } from '../support/builders/models/tiny-generative.ts'
import { requireSpecialist } from '../support/builders/models/tiny-specialist.ts'
import { requireSpeech } from '../support/builders/models/tiny-speech.ts'
import {
  dataDirectory,
  processesOn,
  startTestPlatform,
  type TestPlatform,
} from '../support/servers/platform.ts'
import { importKinds, type Kind, serversOfKind } from './kinds.ts'
import { type SubmittedTask, checkBooks, endings, persistently } from './work.ts'

const NODE_MEMORY = { HEARTH_NODE_MEMORY_MB: '12000' }

interface Task {
  task_id: string
  status: string
  error: string | null
}

describe('running models of every kind', function () {
  this.timeout(900_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let kinds: Kind[]

  before(requireSpecialist)
  before(requireSpeech)
  before(requireGenerative)
  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: NODE_MEMORY })
    kinds = await importKinds(platform)
    await Promise.all(kinds.map((kind) => answers(kind)))
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  for (const victim of ['model servers', 'node'] as const) {
    it(`finish their requests exactly once when ${victim} is killed, and continue to serve`, async () => {
      const work = await begin()
      const direct = kinds.map((kind) => infer(kind, kind.long).catch(() => undefined))
      await sleep(700)
      assert.ok((await statuses(work)).some((status) => status !== 'succeeded'))

      const killed = kill(victim)
      await persistently('the platform', () => platform.api.get('/capabilities'))
      const ends = await endings(platform, work)
      const responses = await Promise.all(direct)

      for (const [index, { taskId }] of work.entries())
        assert.equal(ends.get(taskId), 'succeeded', `${kinds[index % kinds.length]?.name} ${taskId}`)
      for (const answer of responses) if (answer) assert.notEqual(answer.task_id, undefined)
      for (const { taskId } of work) await checkBooks(platform, taskId)
      for (const pid of killed) assert.ok(!processesOn(data.path).some((process) => process.pid === pid))
      await Promise.all(kinds.map((kind) => answers(kind)))
      for (const kind of kinds) assert.equal(serversOfKind(data.path, kind).length, 1, kind.name)
    })
  }

  it('stop a cancelled request and continue to serve', async () => {
    const work = await begin()
    await sleep(700)
    const cancelled = await Promise.all(
      work.map(({ taskId }) =>
        platform.api.post(`/tasks/${taskId}:cancel`).then(
          () => true,
          () => false,
        ),
      ),
    )
    await endings(platform, work)

    assert.ok(cancelled.includes(true))
    for (const [index, { taskId }] of work.entries()) {
      const { status, error } = await platform.api.get<Task>(`/tasks/${taskId}`)
      if (cancelled[index]) assert.deepEqual([status, error], ['failed', 'cancelled by the caller'])
      else assert.equal(status, 'succeeded')
      await checkBooks(platform, taskId)
    }
    const since = performance.now()
    await Promise.all(kinds.map((kind) => answers(kind)))
    assert.ok(performance.now() - since < 20_000, 'cancelled requests still occupy the models')
  })

  /** Queues two long requests of each kind. */
  const begin = (): Promise<SubmittedTask[]> =>
    Promise.all(
      [...kinds, ...kinds].map(async ({ endpointId, long }) => {
        const path = `/endpoints/${endpointId}/infer:async`
        return { taskId: (await platform.api.post<Task>(path, { input: long })).task_id }
      }),
    )

  const infer = ({ endpointId }: Kind, input: object): Promise<Task> =>
    platform.api.post<Task>(`/endpoints/${endpointId}/infer`, { input, sync_timeout_s: 120 })

  async function answers(kind: Kind): Promise<void> {
    await eventually(
      `an answer from ${kind.name}`,
      async () => {
        const answer = await persistently(kind.name, () => infer(kind, kind.short))
        return answer.status === 'succeeded' || undefined
      },
      180_000,
    )
  }

  const statuses = (work: readonly SubmittedTask[]): Promise<string[]> =>
    Promise.all(work.map(async ({ taskId }) => (await platform.api.get<Task>(`/tasks/${taskId}`)).status))

  function kill(victim: 'model servers' | 'node'): number[] {
    if (victim !== 'model servers') return [platform.kill(victim)]
    const pids = kinds.flatMap((kind) => serversOfKind(data.path, kind))
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    return pids
  }
})
