import assert from 'node:assert/strict'
import { ConsoleWorld } from '../support/servers/console-world.ts'

describe('a viewer in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  let keys: { viewer: string; operator: string }
  before(async function () {
    on = await ConsoleWorld.start(this, { config: { HEARTH_FEATURES: ['webhooks'] } })
    const { api, caller } = on
    keys = {
      viewer: await api.key(caller.accountId, 'viewer'),
      operator: await api.key(caller.accountId, 'operator'),
    }
  })
  after(() => on?.[Symbol.asyncDispose]())

  const buttons = async (key: string, path: string, name: string): Promise<number> => {
    await using tab = await on.open(path, key)
    const role = tab.page.waitForResponse((answer) => answer.url().endsWith('/me'))
    await role
    await tab.page.getByRole('heading', { level: 1 }).waitFor()
    await tab.page.getByText(/yet/).first().waitFor()
    return tab.page.getByRole('button', { name, exact: true }).count()
  }

  it('sees no upload, which would be refused', async () => {
    assert.equal(await buttons(keys.operator, '/datasets', 'Upload'), 1)
    assert.equal(await buttons(keys.viewer, '/datasets', 'Upload'), 0)
  })
})
