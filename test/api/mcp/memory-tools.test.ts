import assert from 'node:assert/strict'
import { enableMemory, grantMemory, revoke } from '../../support/builders/memory.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp, REVISIONS } from '../../support/servers/clients/mcp-client.ts'

describe('the memory tools', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { HEARTH_MEMORY: '1' } })
  })
  after(() => api[Symbol.asyncDispose]())

  async function ofMemory(key: string): Promise<string[]> {
    await using mcp = await connectMcp(api, key, { revision: REVISIONS[0] })
    const { tools } = await mcp.client.listTools()
    return tools.map(({ name }) => name).filter((name) => ['remember', 'recall'].includes(name))
  }

  for (const revision of REVISIONS) {
    it(`remember and recall a fact that an agent stores (${revision})`, async () => {
      const caller = await api.account()
      await enableMemory(api, caller)
      await using mcp = await connectMcp(api, caller.key, { revision })

      const first = await mcp.call('remember', { text: 'the meeting is on Monday' })
      const second = await mcp.call('remember', {
        text: 'the meeting is on Tuesday',
        supersedes: first.body.entry_id,
      })
      const recalled = await mcp.call('recall', { query: 'when is the meeting?' })
      const blank = await mcp.call('remember', { text: ' ' })

      assert.ok(!second.isError, second.text)
      assert.deepEqual(
        recalled.body.entries.map(
          ({ text, source }: { text: string; source: string }) => `${source}: ${text}`,
        ),
        ['agent: the meeting is on Tuesday'],
      )
      assert.equal(blank.isError, true)
      assert.match(blank.text, /text/)
    })
  }

  it("are listed according to the key's grants, and only in accounts with memory", async () => {
    const caller = await api.account()
    await enableMemory(api, caller)
    const agent = await api.key(caller.accountId, 'operator')
    const other = await api.account()

    const none = await ofMemory(agent)
    await grantMemory(api, agent, 'read')
    const reading = await ofMemory(agent)
    await grantMemory(api, agent, 'write')
    const both = await ofMemory(agent)
    await using mcp = await connectMcp(api, agent, { revision: REVISIONS[0] })
    await revoke(api, agent, 'read')
    const writing = await ofMemory(agent)

    assert.deepEqual([none, reading, both, writing], [[], ['recall'], ['remember', 'recall'], ['remember']])
    assert.deepEqual(await ofMemory(other.key), [])
    await assert.rejects(mcp.call('recall', { query: 'x' }), /Unknown tool|recall/)
  })
})
