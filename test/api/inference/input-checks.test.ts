import assert from 'node:assert/strict'
import { InputChecks } from '../../../api/inference/input-checks.ts'
import { newId } from '../../../domain/ids.ts'
import { SchemaChecks } from '../../../platform/schema-checks/checks.ts'

const columns = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`column_${i}`, { type: 'number' }]))
const table = (count: number) => ({
  type: 'object',
  required: ['instances'],
  properties: {
    instances: {
      type: 'array',
      items: {
        type: 'object',
        properties: columns(count),
        required: ['column_0'],
        additionalProperties: false,
      },
    },
  },
})
const given = (value: unknown) => ({ value, json: Buffer.from(JSON.stringify(value)) })

describe('input checks', () => {
  let checks: SchemaChecks
  before(() => {
    checks = new SchemaChecks()
  })
  after(() => checks[Symbol.asyncDispose]())

  const endpoint = (input_schema: Record<string, unknown>) => ({ schema_key: newId(), input_schema })

  it('keep the memory for compiled schemas within 32 MB', () => {
    const inputs = new InputChecks(checks)
    const size = 64 * 1024 + 12 * JSON.stringify(table(20)).length
    for (let i = 0; i < 20; i++) void inputs.check(endpoint(table(20)), 'a', given({ instances: [] }))

    assert.equal(inputs.bytes, 20 * size)
  })

  it('leave the columns of very wide tables to the model, and check the rest', async () => {
    const inputs = new InputChecks(checks)
    const wide = endpoint(table(3_000))
    await inputs.check(wide, 'a', given({ instances: [{ column_1: 1 }] }))

    await assert.rejects(
      async () => inputs.check(wide, 'a', given({ instances: [1] })),
      /body\.input\.instances\.0: must be an object/,
    )
    await assert.rejects(
      async () => inputs.check(wide, 'a', given({})),
      /body\.input\.instances: Field required/,
    )
    await assert.rejects(
      async () =>
        inputs.check(endpoint(table(500)), 'a', given({ instances: [{ column_0: 1, column_1: 'x' }] })),
      /column_1: must be a number/,
    )
  })

  it('remove nulls from optional members, however many, inline and in a child process', async () => {
    const inputs = new InputChecks(checks)
    for (const count of [33, 1_000, 20_000]) {
      const input = given({
        instances: Array.from({ length: count }, (_, n) => ({ column_0: n, column_1: null, column_2: 1 })),
      })
      const before = process.cpuUsage()
      await inputs.check(endpoint(table(10)), 'a', input)

      const spentMs = process.cpuUsage(before).user / 1_000
      const wanted = { instances: Array.from({ length: count }, (_, n) => ({ column_0: n, column_2: 1 })) }
      assert.deepEqual(input.value, wanted)
      assert.deepEqual(JSON.parse(String(input.json)), wanted)
      assert.ok(spentMs < 1_000, `${count} rows took ${spentMs} ms of this process`)
    }
  })

  it('report a null in a required member, and keep nulls that the schema allows', async () => {
    const inputs = new InputChecks(checks)
    const schema = {
      type: 'object',
      required: ['id'],
      properties: {
        id: { type: 'integer' },
        note: { type: ['string', 'null'] },
        size: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
        'a/b~c': { type: 'boolean' },
      },
    }
    const fine = given({ id: 1, note: null, size: null, 'a/b~c': null })
    await inputs.check(endpoint(schema), 'a', fine)

    assert.deepEqual(fine.value, { id: 1, note: null })
    for (const bad of [
      { id: null, size: null },
      { id: null, note: null, 'a/b~c': null },
    ])
      await assert.rejects(
        async () => inputs.check(endpoint(schema), 'a', given(bad)),
        /^ApiError: body\.input\.id: must be a whole number/,
      )
  })

  it('check small inputs inline, and large ones in a child process', async () => {
    const inputs = new InputChecks(checks)
    const small = endpoint(table(10))

    assert.equal(inputs.check(small, 'a', given({ instances: [] })), undefined)
    const large = given({ instances: Array.from({ length: 20_000 }, () => ({ column_0: 1 })) })
    const checking = inputs.check(small, 'a', large)
    assert.ok(checking instanceof Promise)
    await checking
    await assert.rejects(
      async () =>
        inputs.check(small, 'a', given({ instances: [...(large.value as { instances: [] }).instances, 1] })),
      /instances\.20000: must be an object/,
    )
  })
})
