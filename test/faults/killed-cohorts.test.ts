import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnyBody } from '../support/servers/api.ts'
import { dataDirectory, startTestPlatform } from '../support/servers/platform.ts'
import type { Process, TestPlatform } from '../support/servers/platform.ts'
import { type ChatModel, chatsAgain, FAKE_LLM_ENV, importChatModel } from './chats.ts'
import { assertPaidOnce, chain, Cohorts } from './cohorts.ts'

const VICTIMS: Process[] = ['api', 'control', 'gate', 'node', 'temporal', 'postgres']
/** The middle of the second of three stages. */
const KILL_AFTER_MS = 3_000

describe('a running cohort', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let model: ChatModel
  let cohorts: Cohorts

  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: FAKE_LLM_ENV })
    cohorts = new Cohorts(platform)
    model = await importChatModel(platform, 'chain')
    await chatsAgain(platform, model)
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  for (const victim of VICTIMS) {
    it(`succeeds when ${victim} is killed, and each stage is paid for once`, async () => {
      const taskId = await cohorts.run(chain(model), victim)
      await cohorts.begun(taskId)
      await sleep(KILL_AFTER_MS)
      platform.kill(victim)
      // A run is accepted while Temporal is down, and starts when Temporal is back.
      const late = victim === 'temporal' && (await cohorts.accept(chain(model), 'accepted meanwhile'))

      const seen = await cohorts.ended(taskId)

      assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
      const { stages } = seen
      // Only a lost node costs an attempt; running work continues without the other processes.
      if (victim !== 'node' && victim !== 'postgres') {
        assert.deepEqual(
          stages.map(({ attempt }: AnyBody) => attempt),
          [1, 1, 1],
        )
      }
      await assertPaidOnce(cohorts, taskId)
      if (late) {
        const begun = await cohorts.ended(late)
        assert.equal(begun.status, 'succeeded', JSON.stringify(begun))
      }
    })
  }
})
