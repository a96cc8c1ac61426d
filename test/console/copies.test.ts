import assert from 'node:assert/strict'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('copies in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const endpoint = (accountId: string, task_type = 'regression') =>
    buildEndpoint(on.api.database.db, accountId, {
      task_type,
      visibility: 'public',
      review_status: 'approved',
    })
  const scaling = async (id: string) => {
    const { body } = await on.api.call('GET', `/api/builder/v1/endpoints/${id}/scaling`, {
      key: on.caller.key,
    })
    return body
  }

  it('are shown to an admin, who can set them, with the last changes and their reasons', async () => {
    const { id } = await endpoint(on.caller.accountId)
    const schedule = [{ cron: '0 8 * * 1-5', timezone: 'Europe/Berlin', min: 2 }]
    await on.api.call('PUT', `/api/builder/v1/endpoints/${id}/scaling`, {
      key: on.caller.key,
      body: { max: 2, schedule },
    })
    await using tab = await on.open(`/endpoints/${id}`)
    const panel = tab.page.getByRole('region', { name: 'Copies' })
    await panel.getByText('0 8 * * 1-5 Europe/Berlin: at least 2').waitFor()
    const save = panel.getByRole('button', { name: 'Set copies' })
    assert.ok(await save.isDisabled())

    await panel.getByLabel('Copies at least').fill('3')
    await panel.getByText('More than the maximum').waitFor()
    assert.ok(await save.isDisabled())
    await panel.getByLabel('Copies at most').fill('3')
    await panel.getByRole('combobox', { name: 'A copy is added beyond' }).click()
    await tab.page.getByRole('option', { name: 'Milliseconds of waiting' }).click()
    await panel.getByLabel('Milliseconds of waiting').fill('500')
    await panel.getByLabel('Idle timeout in seconds').fill('0')
    await save.click()

    // The schedule replaces the minimum.
    await panel.getByRole('row', { name: /Now 2 wanted, 0 loaded, 0 loading/ }).waitFor()
    await panel.getByRole('row', { name: /Reason for fewer .*node/ }).waitFor()
    await panel.getByRole('row', { name: 'Idle copies stay loaded' }).waitFor()
    const changes = panel.getByRole('table', { name: 'changes to copies' })
    await changes.getByRole('row', { name: / → 2 at least 2 copies are wanted/ }).waitFor()
    const { min, max, target_in_flight, target_wait_ms, idle_timeout_s, ...rest } = await scaling(id)
    assert.deepEqual(
      [min, max, target_in_flight, target_wait_ms, idle_timeout_s, rest.schedule],
      [3, 3, null, 500, 0, schedule],
    )
    await tab.picture('endpoint-copies-light')
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('keep the typed text when the gateway rejects it', async () => {
    const { id } = await endpoint(on.caller.accountId)
    await using tab = await on.open(`/endpoints/${id}`)
    const panel = tab.page.getByRole('region', { name: 'Copies' })
    await panel.getByLabel('Copies at most').fill('900')
    await panel.getByRole('button', { name: 'Set copies' }).click()

    await panel
      .getByRole('alert')
      .getByText(/the account may reserve \d+ copies/)
      .waitFor()
    assert.equal(await panel.getByLabel('Copies at most').inputValue(), '900')
    assert.deepEqual(tab.faults, [])
  })

  it('are shown to a viewer without the form', async () => {
    const { id } = await endpoint(on.caller.accountId)
    await using tab = await on.open(`/endpoints/${id}`, await on.api.key(on.caller.accountId, 'viewer'))
    const panel = tab.page.getByRole('region', { name: 'Copies' })
    await panel.getByText('The number of copies has not changed yet.').waitFor()

    assert.equal(await panel.getByRole('button').count(), 0)
    assert.deepEqual(tab.faults, [])
  })

  it("are not shown for tools or for other accounts' endpoints", async () => {
    const other = await on.api.account()
    const [foreign, tool] = [await endpoint(other.accountId), await endpoint(on.caller.accountId, 'tool')]
    for (const { id } of [foreign, tool]) {
      await using tab = await on.open(`/endpoints/${id}`)
      await tab.page.getByRole('region', { name: 'Details' }).waitFor()

      assert.equal(await tab.page.getByRole('region', { name: 'Copies' }).count(), 0)
      assert.deepEqual(tab.faults, [])
    }
  })
})
