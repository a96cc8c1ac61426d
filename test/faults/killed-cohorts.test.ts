import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import type { PlanRequest } from '../../schemas/cohort-plan.ts'
import { eventually } from '../support/assertions/until.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { dataDirectory, startTestPlatform } from '../support/servers/platform.ts'
import type { Process, TestPlatform } from '../support/servers/platform.ts'
import { type ChatModel, chatsAgain, FAKE_LLM_ENV, importChatModel } from './chats.ts'
import { persistently } from './work.ts'

const VICTIMS: Process[] = ['api', 'control', 'gate', 'node', 'temporal', 'postgres']
const ENDED = ['succeeded', 'failed', 'cancelled']
const STAGE_MS = 2_000
/** The middle of the second of three stages. */
const KILL_AFTER_MS = 3_000

describe('a cohort under way when a process is killed', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let model: ChatModel

  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: FAKE_LLM_ENV })
    model = await importChatModel(platform, 'chain')
    await chatsAgain(platform, model)
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  for (const victim of VICTIMS) {
    it(`succeeds when ${victim} is killed, and each stage is paid for once`, async () => {
      const { task_id: taskId } = await cohort('/cohorts:run', {
        plan: chain(model),
        input: { text: victim },
      })
      await eventually('its start', async () =>
        (await summary(taskId)).status === 'running' ? true : undefined,
      )
      await sleep(KILL_AFTER_MS)
      platform.kill(victim)
      // A run is accepted while Temporal is down, and begins when it is back.
      const late =
        victim === 'temporal' &&
        (await accept({ plan: chain(model), input: { text: 'accepted meanwhile' } })).task_id

      const seen = await eventually(
        'its end',
        async () => {
          const now = await persistently('the summary', () => summary(taskId))
          return ENDED.includes(now.status) ? now : undefined
        },
        120_000,
      )

      assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
      const { stages } = seen
      // Only a lost node costs an attempt; work under way goes on without the others.
      if (victim !== 'node' && victim !== 'postgres') {
        assert.deepEqual(
          stages.map(({ attempt }: AnyBody) => attempt),
          [1, 1, 1],
        )
      }
      const books = await call('GET', `/api/v1/admin/audit/task/${taskId}`, {
        'x-api-key': platform.ready.operations_key,
      })
      assert.equal(books.sums.total_micro, 0)
      const kinds = books.entries.map(({ kind }: AnyBody) => kind)
      assert.deepEqual(
        ['hold', 'capture', 'payout', 'refund'].map(
          (kind) => kinds.filter((one: string) => one === kind).length,
        ),
        [6, 6, 6, 0],
      )
      if (late) {
        const begun = await eventually('the end of the late run', async () => {
          const now = await summary(late)
          return ENDED.includes(now.status) ? now : undefined
        })
        assert.equal(begun.status, 'succeeded', JSON.stringify(begun))
      }
    })
  }

  const once = (path: string, body?: object): Promise<AnyBody> =>
    call(
      body ? 'POST' : 'GET',
      `/api/v1${path}`,
      {
        'x-api-key': platform.ready.api_key,
        'x-account-id': platform.ready.account_id,
        'x-user-id': 'a-tester',
      },
      body,
    )
  const cohort = (path: string, body?: object): Promise<AnyBody> =>
    persistently('the platform', () => once(path, body))
  const accept = (body: object): Promise<AnyBody> => once('/cohorts:run', body)
  const summary = (taskId: string) => cohort(`/tasks/${taskId}/cohort`)

  async function call(
    method: 'GET' | 'POST',
    path: string,
    headers: object,
    body?: object,
  ): Promise<AnyBody> {
    const answer = await request(platform.ready.base_url + path, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: body ? JSON.stringify(body) : null,
    })
    const text = await answer.body.text()
    assert.ok(answer.statusCode < 300, `${method} ${path}: ${answer.statusCode} ${text}`)
    return JSON.parse(text)
  }
})

/** Three stages, each of which says something to the next. */
function chain({ endpointId }: ChatModel): PlanRequest {
  const input = { messages: [{ role: 'user', content: '' }], fake: { delay_ms: STAGE_MS } }
  const names = ['first', 'second', 'third']
  return {
    name: 'chain',
    stages: names.map((stage_id) => ({ stage_id, endpoint_id: endpointId, input })),
    edges: names.map((stage_id, i) => ({
      from:
        i === 0
          ? { stage_id: 'input', path: '/text' }
          : { stage_id: names[i - 1]!, path: '/choices/0/message/content' },
      to: { stage_id, path: '/messages/0/content' },
    })),
  }
}
