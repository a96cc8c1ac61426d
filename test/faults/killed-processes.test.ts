import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, it } from 'mocha'
import { eventually } from '../support/assertions/until.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { uploadTable } from '../support/servers/clients/builder-client.ts'
import { dataDirectory, processesOn, startTestPlatform } from '../support/servers/platform.ts'
import type { Process, TestPlatform } from '../support/servers/platform.ts'
import { ChatsInFlight, chatsAgain, FAKE_LLM_ENV, importChatModel, serversOf } from './chats.ts'
import type { ChatModel, Victim } from './chats.ts'
import {
  ask,
  burst,
  checkBooks,
  endings,
  inferLater,
  makeModel,
  persistently,
  putTable,
  RUN_EPOCHS,
  startRun,
} from './work.ts'
import type { SubmittedTask, Model } from './work.ts'

const VICTIMS: Process[] = ['api', 'control', 'gate', 'node', 'temporal', 'postgres']
const INGEST_ROWS = 250_000
/** Direct requests that the restarted platform must accept: several from each lane. */
const DIRECT_AFTERWARDS = 12
const CHAT_INPUT = { messages: [{ role: 'user', content: 'hi' }] }

interface Run {
  status: string
  error_message: string | null
  metrics: { epochs?: unknown[] } | null
}

describe('running work', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let warm: Model
  let trainingTable: string
  let ingestTable: Buffer
  let warmLlm: ChatModel
  const coldLlms = new Map<Victim, ChatModel>()
  /** Models that only a queued request loads. */
  const queuedLlms = new Map<Process, ChatModel>()

  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: FAKE_LLM_ENV })
    trainingTable = (await uploadTable(platform.api, regressionTable(3000))).dataset_id
    ingestTable = regressionTable(INGEST_ROWS)
    warm = await makeModel(platform, 'warm', 7)
    warmLlm = await importChatModel(platform, 'warm-llm')
    for (const [index, victim] of [...VICTIMS, 'model server' as const].entries())
      coldLlms.set(victim, await importChatModel(platform, `cold-llm-${index}`, { load_s: 2 }))
    for (const [index, victim] of VICTIMS.entries())
      queuedLlms.set(victim, await importChatModel(platform, `queued-llm-${index}`, { load_s: 2 }))
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  for (const victim of VICTIMS) {
    it(`ends correctly when ${victim} is killed, and nothing is charged twice`, async () => {
      const queuedLlm = queuedLlms.get(victim)
      const untouchedLlm = coldLlms.get(victim)
      assert.ok(queuedLlm && untouchedLlm)
      const { datasetId, commit } = await putTable(platform, ingestTable)
      const run = await startRun(platform, trainingTable)
      await eventually('the run', async () => (await epochsOf(run)) > 0 || undefined)
      await endings(platform, [await accepted(warm)])

      // All kinds of work at once: chats, an ingest, a run, a cold load, queued and direct requests.
      const chats = await ChatsInFlight.begin(platform, warmLlm, untouchedLlm)
      const ingest = persistently('the ingest', () => platform.api.post<{ num_samples: number }>(commit))
      const first = await inferLater(platform, queuedLlm, CHAT_INPUT)
      const direct = burst(platform, warm, 4)
      const queued = await Promise.all(Array.from({ length: 8 }, () => accepted(warm)))
      await sleep(250)
      assert.deepEqual(await statusOf(`/datasets/${datasetId}`, `/training/runs/${run}`), [
        'pending',
        'running',
      ])
      chats.assertInFlight()
      const killed = platform.kill(victim)
      chats.askMore()
      const late = (await Promise.all(Array.from({ length: 8 }, () => ask(platform, warm)))).filter(
        (task) => task !== undefined,
      )
      await eventually(`another ${victim}`, () => (isNew(victim, killed) ? true : undefined))
      const before = direct.accepted.length
      await eventually(
        'direct requests',
        () => direct.accepted.length >= before + DIRECT_AFTERWARDS || undefined,
      )
      await direct.end()

      assert.equal((await ingest).num_samples, INGEST_ROWS)
      assert.equal(
        (await persistently('the dataset', () => platform.api.get<Run>(`/datasets/${datasetId}`))).status,
        'ready',
      )
      const all = [first, ...queued, ...late, ...direct.accepted]
      const ends = await endings(platform, all)
      for (const { taskId } of [first, ...queued, ...late]) assert.equal(ends.get(taskId), 'succeeded')
      for (const { taskId, reported } of direct.accepted)
        if (reported) assert.equal(ends.get(taskId), reported)
      for (const { taskId } of all) await checkBooks(platform, taskId)
      assert.ok(direct.accepted.length > 0)
      await chatsEnded(chats, victim)
      await completes(run)
      const trainers = () =>
        processesOn(data.path).filter(({ command }) => command.includes('hearth_trainers'))
      await eventually('the end of every trainer', () => (trainers().length === 0 ? true : undefined))
    })
  }

  it('ends chats correctly when their model server is killed', async () => {
    const untouched = coldLlms.get('model server')
    assert.ok(untouched)
    const chats = await ChatsInFlight.begin(platform, warmLlm, untouched)
    const [server] = serversOf(data.path, warmLlm)
    assert.ok(server)
    chats.assertInFlight()

    process.kill(server, 'SIGKILL')
    chats.askMore()

    await chatsEnded(chats, 'model server')
  })

  it('leaves no process behind after everything is stopped', async () => {
    await platform.stop()

    assert.deepEqual(processesOn(data.path), [])
  })

  async function chatsEnded(chats: ChatsInFlight, victim: Victim): Promise<void> {
    await chats.check(victim)
    await chatsAgain(platform, warmLlm)
    assert.equal(serversOf(data.path, warmLlm).length, 1)
    for (const model of coldLlms.values()) assert.ok(serversOf(data.path, model).length <= 1)
  }

  async function accepted(model: Model): Promise<SubmittedTask> {
    const task = await ask(platform, model)
    assert.ok(task, 'the request was rejected before anything was killed')
    return task
  }

  function statusOf(...paths: string[]): Promise<string[]> {
    return Promise.all(paths.map(async (path) => (await platform.api.get<Run>(path)).status))
  }

  async function epochsOf(run: string): Promise<number> {
    const { metrics, status } = await platform.api.get<Run>(`/training/runs/${run}`)
    assert.notEqual(status, 'failed')
    return metrics?.epochs?.length ?? 0
  }

  async function completes(run: string): Promise<void> {
    const ended = await eventually(
      'the end of the run',
      async () => {
        const now = await persistently('the run', () => platform.api.get<Run>(`/training/runs/${run}`))
        return now.status === 'running' || now.status === 'pending' ? undefined : now
      },
      120_000,
    )
    assert.equal(ended.status, 'completed', ended.error_message ?? '')
    const { metrics } = await platform.api.get<Run>(`/training/runs/${run}/metrics`)
    assert.equal(metrics?.epochs?.length, RUN_EPOCHS)
  }

  function isNew(victim: Process, killed: number): boolean {
    const pid = platform.pidOf(victim)
    return pid !== undefined && pid !== killed
  }
})
