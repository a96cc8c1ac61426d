import assert from 'node:assert/strict'
import type { Browser } from 'playwright-core'
import { openSignedIn } from '../support/builders/console.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { type ConsoleTab, requireBrowser, requireConsole } from '../support/servers/browser.ts'

describe('a viewer in the console', function () {
  this.timeout(60_000)
  let browser: Browser
  let api: TestApi
  let keys: { viewer: string; operator: string }
  before(async function () {
    await requireConsole(this)
    browser = await requireBrowser(this)
    api = await startApi({ config: { HEARTH_FEATURES: ['webhooks'] } })
    const { accountId } = await api.account()
    keys = { viewer: await api.key(accountId, 'viewer'), operator: await api.key(accountId, 'operator') }
  })
  after(async () => {
    await browser?.close()
    await api?.[Symbol.asyncDispose]()
  })

  const buttons = async (key: string, path: string, name: string): Promise<number> => {
    await using tab: ConsoleTab = await openSignedIn(browser, api, path, key)
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
