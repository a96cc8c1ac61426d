import assert from 'node:assert/strict'
import { rowsOfTable } from '../../console/src/playground/csv.ts'
import { faultOf } from '../../console/src/playground/faults.ts'
import { formatPrediction } from '../../console/src/playground/prediction.ts'
import { rowSchemaOf } from '../../console/src/playground/rows.ts'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import type { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

const INPUT_SCHEMA = {
  type: 'object',
  required: ['instances'],
  properties: {
    instances: {
      type: 'array',
      minItems: 1,
      maxItems: 100,
      items: {
        type: 'object',
        required: ['rooms', 'city'],
        'x-order': ['rooms', 'age', 'city'],
        properties: {
          age: { type: ['number', 'null'] },
          city: { type: 'string' },
          rooms: { type: 'number' },
        },
      },
    },
  },
}
const EXAMPLE = {
  instances: [
    { rooms: 3, age: 10, city: 'Oslo' },
    { rooms: 4, age: null, city: 'Bergen' },
  ],
}
const TASK_ID = '01970000-0000-7000-8000-000000000001'

describe('playground form', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  let path: string
  before(async function () {
    on = await ConsoleWorld.start(this)
    const { id } = await buildEndpoint(on.api.database.db, on.caller.accountId, {
      task_type: 'tabular-regression',
      input_schema: JSON.stringify(INPUT_SCHEMA),
      example_input: JSON.stringify(EXAMPLE),
    })
    path = `/endpoints/${id}`
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Answers instead of a node, and records the requests. */
  async function answering({ page }: ConsoleTab): Promise<{ instances: object[] }[]> {
    const inputs: { instances: object[] }[] = []
    await page.route('**/infer:async', (route) => {
      inputs.push((route.request().postDataJSON() as { input: { instances: object[] } }).input)
      return route.fulfill({ status: 202, json: { task_id: TASK_ID, status: 'queued', model_state: 'cold' } })
    })
    await page.route(`**/tasks/${TASK_ID}`, (route) => {
      const predictions = inputs.at(-1)?.instances.map((_row, at) => 1_234.567 + at)
      return route.fulfill({
        json: { task_id: TASK_ID, status: 'succeeded', result: { predictions }, inference_time_ms: 3 },
      })
    })
    return inputs
  }
  const run = ({ page }: ConsoleTab) => page.getByRole('button', { name: 'Run', exact: true }).click()
  const field = ({ page }: ConsoleTab, name: string, row = 1) =>
    page.getByRole('group', { name: `Row ${row}`, exact: true }).getByLabel(new RegExp(`^${name}`))

  it('names and focuses an empty field, and sends nothing until it is filled', async () => {
    await using tab = await on.open(path)
    const inputs = await answering(tab)
    await run(tab)
    const table = tab.page.getByRole('table', { name: 'predictions' })
    await table.getByRole('row', { name: /^1 1,235 3 10 Oslo$/ }).waitFor()

    await field(tab, 'rooms').fill('')
    await field(tab, 'city').focus()
    await run(tab)

    await tab.page.getByText('Not sent: Row 1: rooms is required.').waitFor()
    await tab.page.locator('.mantine-InputWrapper-error').getByText('rooms is required').waitFor()
    await field(tab, 'rooms').and(tab.page.locator(':focus')).waitFor()
    await table.waitFor()
    assert.equal(inputs.length, 1)
    assert.deepEqual(await tab.barriers(), [])
    await tab.picture('playground-refused')

    await field(tab, 'rooms').fill('5')
    await tab.page.getByText('Not sent').waitFor({ state: 'detached' })
    await field(tab, 'age').fill('')
    await run(tab)
    await table.getByRole('row', { name: /^1 1,235 5 – Oslo$/ }).waitFor()
    assert.deepEqual(inputs.at(-1), { instances: [{ rooms: 5, city: 'Oslo' }] })
    assert.deepEqual(tab.faults, [])
  })

  it('starts with one row, adds more, and keeps the typed values for the code view', async () => {
    await using tab = await on.open(path)
    await field(tab, 'rooms').fill('7')
    await tab.page.getByRole('button', { name: 'Add a row' }).click()
    await field(tab, 'rooms', 2).fill('8')
    await tab.page.getByRole('button', { name: 'Remove row 1' }).click()
    await tab.page.getByRole('tab', { name: 'Code' }).click()
    const code = tab.page.getByLabel('curl code', { exact: true })

    assert.match((await code.textContent()) ?? '', /"rooms": 8/)
    await tab.page.getByRole('link', { name: 'Keys and usage' }).last().waitFor()
    await tab.page.emulateMedia({ colorScheme: 'dark' })
    assert.deepEqual(await tab.barriers(), [])
    await tab.page.getByRole('tab', { name: 'Try it' }).click()
    assert.equal(await field(tab, 'rooms').inputValue(), '8')
    assert.deepEqual(tab.faults, [])
  })

  it('uses the full width of a phone', async () => {
    await using tab = await on.open(path)
    await tab.page.setViewportSize({ width: 390, height: 800 })
    const box = await field(tab, 'rooms').boundingBox()

    await tab.picture('playground-narrow')
    assert.ok((box?.width ?? 0) > 270, String(box?.width))
  })

  it('fills its rows from a table, even one with more rows than it shows fields for', async () => {
    await using tab = await on.open(path)
    const inputs = await answering(tab)
    await tab.page.getByText('Fill the rows from a table').click()
    await tab.page.getByLabel('Or paste the table').fill('price,rooms\n1,2\n')
    await tab.page.getByRole('button', { name: 'Fill the rows' }).click()
    await tab.page.getByText('The first line must name the columns; it lacks city.').waitFor()

    const lines = Array.from({ length: 30 }, (_none, at) => `${at},Oslo`)
    const buffer = Buffer.from(`rooms,city\n${lines.join('\n')}\n`)
    await tab.page.locator('input[type=file]').setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer })
    await tab.page.getByText('30 rows are filled in.').waitFor()
    await run(tab)
    await tab.page
      .getByRole('table', { name: 'predictions' })
      .getByRole('row', { name: /^30 1,264 29 – Oslo$/ })
      .waitFor()

    assert.equal(inputs[0]?.instances.length, 30)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })
})

describe('playground text helpers', () => {
  const schema = rowSchemaOf(INPUT_SCHEMA)!

  it('parse tables with commas, tabs and quotes into the types of the columns', () => {
    assert.deepEqual(rowsOfTable('\uFEFFcity,note,rooms\r\n"Oslo, ""N""",x,3\r\n\r\nBergen,,many', schema), [
      { rooms: 3, city: 'Oslo, "N"' },
      { rooms: 'many', city: 'Bergen' },
    ])
    assert.deepEqual(rowsOfTable('rooms\tage\tcity\n3.5\t\tOslo', schema), [
      { rooms: 3.5, age: undefined, city: 'Oslo' },
    ])
  })

  it('explain what is wrong with a table', () => {
    const all = `rooms,city\n${'1,a\n'.repeat(101)}`
    assert.throws(() => rowsOfTable(all, schema), /These are 101 rows; the model accepts at most 100/)
    assert.throws(() => rowsOfTable('rooms,city\n1,"a', schema), /Line 2 has a quotation mark/)
    assert.throws(() => rowsOfTable('rooms,city\n', schema), /no rows below/)
  })

  it('show validation errors in plain words next to their fields', () => {
    const at = (error: string, instanceLocation: string, keyword = 'x') =>
      faultOf({ keyword, error, instanceLocation })

    assert.deepEqual(at('Instance does not have required property "the age".', '#/instances/1', 'required'), {
      name: 'required',
      property: '["instances"]["1"]["the age"]',
      message: 'the age is required',
      stack: 'Row 2: the age is required',
    })
    const wrong = 'Instance type "string" is invalid. Expected "number", "null".'
    assert.equal(at(wrong, '#/instances/0/a~1b%20c').message, 'a/b c must be a number')
    assert.equal(at('3 is less than 5.', '#/n').stack, 'n must be at least 5')
    assert.equal(at('Instance does not match any of ["a","b"].', '#/n').stack, 'n must be one of a, b')
    assert.equal(at('Something else.', '#').stack, 'The input is invalid: Something else.')
  })

  it('show a label with its probability, and rounded numbers', () => {
    assert.equal(
      formatPrediction({ label: true, probabilities: { true: 0.97123, false: 0.02877 } }),
      'true (97.1 %)',
    )
    assert.equal(formatPrediction({ label: 'cat' }), 'cat')
    assert.equal(formatPrediction(0.123456), '0.1235')
    assert.equal(formatPrediction([1, 2]), '[1,2]')
  })
})
