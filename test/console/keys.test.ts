import assert from 'node:assert/strict'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('keys in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const me = (key: string) => on.api.call('GET', '/api/builder/v1/me', { key })

  it('are created with limits, shown once, and revoked', async () => {
    await using tab = await on.open('/account')
    await tab.page.getByLabel(/^Name of the new key/).fill('for the shop')
    await tab.page.getByLabel('Requests per minute').fill('5')
    await tab.page.getByLabel('Valid for days').fill('3o')
    await tab.page.getByText('A whole number, at least 1').waitFor()
    assert.ok(await tab.page.getByRole('button', { name: 'Create a key' }).isDisabled())
    await tab.page.getByLabel('Valid for days').fill('30')
    await tab.page.getByRole('button', { name: 'Create a key' }).click()
    await tab.page.getByText('it is not shown again').waitFor()
    const box = await tab.page.locator('pre').boundingBox()
    assert.ok(box && box.y >= 0 && box.y + box.height <= 900, JSON.stringify(box))
    const key = (await tab.page.locator('pre').textContent()) ?? ''
    await tab.page.getByRole('button', { name: 'Copy key' }).waitFor()
    const tools = { name: 'for tools', tools: ['sales-*'] }
    await on.api.call('POST', '/api/builder/v1/keys', { key: on.caller.key, body: tools })
    await tab.page.getByRole('row', { name: /for tools.*only the tools sales-\*/ }).waitFor()

    const { body } = await me(key)
    assert.deepEqual([body.role, body.key.limits], ['operator', { requests_per_minute: 5 }])
    const days = (Date.parse(body.key.expires_at) - Date.now()) / 86_400_000
    assert.ok(days > 29.9 && days <= 30, `${days} days`)
    const row = tab.page.getByRole('table', { name: 'keys' }).getByRole('row', { name: /for the shop/ })
    await row.getByText('5 requests per minute').waitFor()
    assert.deepEqual(await tab.barriers(), [])
    await tab.picture('keys-light')

    await tab.page.getByRole('button', { name: 'Forget the key' }).click()
    await row.getByRole('button', { name: 'Revoke for the shop' }).click()
    await row.getByRole('button', { name: 'Revoke for the shop permanently' }).click()
    await row.getByText(/^Revoked/).waitFor()

    assert.equal((await me(key)).status, 401)
    assert.deepEqual(tab.faults, [])
  })

  it('cannot be changed by a key without permission', async () => {
    await using tab = await on.open('/account', await on.api.key(on.caller.accountId, 'viewer'))
    await tab.page.getByText(/^Only a key with the role admin/).waitFor()

    assert.equal(await tab.page.getByRole('button', { name: 'Create a key' }).count(), 0)
    assert.deepEqual(tab.faults, [])
  })
})
