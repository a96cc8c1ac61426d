import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { weighSchema } from '../../../domain/schema-weight.ts'
import { type CheckResult, SchemaChecks } from '../../../platform/schema-checks/checks.ts'

type Schema = Record<string, unknown>

/** Definitions d0 to d<depth>; each refers to the next. */
const ladder = (depth: number, step: (next: Schema) => Schema): Schema => ({
  $ref: '#/$defs/d0',
  $defs: Object.fromEntries(
    Array.from({ length: depth }, (_, i) => [
      `d${i}`,
      i === depth - 1 ? { type: 'number' } : step({ $ref: `#/$defs/d${i + 1}` }),
    ]),
  ),
})
/** Each level of the value doubles the checks, but nothing multiplies at one location. */
const byDepth = (levels: number): Schema =>
  ladder(levels, (next) => ({ anyOf: [{ properties: { x: next } }, { properties: { x: next } }] }))
const nested = (levels: number): unknown => (levels === 0 ? 'no number' : { x: nested(levels - 1) })

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const nameOf = (result: CheckResult): string => Object.keys(result)[0] ?? ''

describe('weighSchema', () => {
  it('detects checks that multiply at one location, whatever keyword causes them', () => {
    const kinds: ((next: Schema) => Schema)[] = [
      (next) => ({ anyOf: [next, next] }),
      (next) => ({ oneOf: [next, next, next] }),
      (next) => ({ allOf: [next], not: next }),
      (next) => ({ if: next, else: { not: { not: next } } }),
      (next) => ({ dependentSchemas: { a: next, b: next } }),
      ({ $ref }) => ({ anyOf: [{ $dynamicRef: $ref }, { $ref }] }),
    ]
    for (const kind of kinds) assert.ok(weighSchema(ladder(30, kind)).atOnce > 10_000)
    const anchored = {
      anyOf: [{ $ref: '#one' }],
      $defs: { one: { $anchor: 'one', allOf: [{ $ref: '#one' }] } },
    }
    assert.equal(weighSchema(anchored).atOnce, Infinity)
  })

  it('stays small for schemas that people write, including recursive ones', () => {
    const tree = {
      $ref: '#/$defs/n',
      $defs: { n: { properties: { l: { $ref: '#/$defs/n' }, r: { $ref: '#/$defs/n' } } } },
    }
    const anyJson = {
      anyOf: [{ type: 'string' }, { items: { $ref: '#' } }, { additionalProperties: { $ref: '#' } }],
    }
    for (const schema of [tree, anyJson]) {
      const { perPlace, atOnce } = weighSchema(schema)
      assert.ok(perPlace < 20 && atOnce < 20)
    }
    assert.ok(weighSchema(byDepth(12)).perPlace > 2_048)
    assert.equal(weighSchema(byDepth(60)).perPlace, Infinity)
    assert.equal(weighSchema(byDepth(60)).atOnce, 4)
  })

  it('counts value lists and pattern repetitions by their length', () => {
    const values = Array.from({ length: 5_000 }, (_, i) => `value-${i}`)
    assert.ok(weighSchema({ enum: values }).perPlace > 5_000)
    assert.ok(weighSchema({ patternProperties: { '(a{500}){9}': {} } }).perPlace > 4_500)
  })
})

describe('checks of caller input', () => {
  const slow = { schema: byDepth(40), value: json(nested(40)) }

  it('report what is wrong with a value or a schema', async () => {
    await using checks = new SchemaChecks()
    const check = (schema: Schema, value: unknown, key = JSON.stringify(schema)) =>
      checks.check({ owner: 'a', key, schema, value: json(value) })

    const fits = await check({ type: 'object' }, {})
    const fails = await check({ type: 'object' }, 1)
    const unusable = await check({ type: 'nonsense' }, 1)
    const again = await check({ type: 'nonsense' }, 1)
    const loop = await check({ not: { $ref: '#' } }, 1)

    assert.ok('faults' in fits && fits.faults.length === 0)
    assert.ok('faults' in fails && fails.faults[0]?.message === 'must be object')
    assert.deepEqual([nameOf(unusable), nameOf(again)], ['unusable', 'unusable'])
    assert.ok('unusable' in loop && loop.unusable.includes('in a loop'))
  })

  it('accept the schema of a very wide table that lists its columns in order', async () => {
    await using checks = new SchemaChecks()
    const names = Array.from({ length: 6_000 }, (_, i) => `a column of the table ${i}`)
    const properties = Object.fromEntries(names.map((name) => [name, { type: 'number' }]))
    const schema = { type: 'object', properties, 'x-order': names }
    const value = json({ [names[0]!]: 1 })

    assert.deepEqual(await checks.check({ owner: 'a', key: 'wide', schema, value }), {
      faults: [],
      removed: [],
    })
  })

  it('are stopped when they are slow, keep this thread free and leave capacity for others', async () => {
    await using checks = new SchemaChecks({ deadlineMs: 1_500, restMs: 1_000 })
    const small = { schema: { type: 'object' }, value: json({}) }
    await checks.check({ owner: 'quiet', key: 'small', ...small })
    let late = 0
    let last = performance.now()
    const ticker = setInterval(() => {
      late = Math.max(late, performance.now() - last - 10)
      last = performance.now()
    }, 10)

    const stopped = Promise.all(
      ['b', 'c', 'b', 'c', 'b'].map((owner, i) => checks.check({ owner, key: `slow ${i}`, ...slow })),
    )
    await sleep(4_000)
    let worst = 0
    for (let i = 0; i < 20; i++) {
      const from = performance.now()
      assert.equal(nameOf(await checks.check({ owner: 'quiet', key: 'small', ...small })), 'faults')
      worst = Math.max(worst, performance.now() - from)
    }
    clearInterval(ticker)

    assert.ok(worst < 6_000, `a small check took ${worst} ms`)
    assert.ok(late < 1_000, `the event loop stood still for ${late} ms`)
    assert.ok((await stopped).every((result) => ['stopped', 'busy'].includes(nameOf(result))))
  })

  it('survive a check that exhausts memory', async () => {
    await using checks = new SchemaChecks({ heapMb: 64, deadlineMs: 60_000 })
    const many = Buffer.from(`[${'[],'.repeat(3_000_000)}[]]`)

    const result = await checks.check({ owner: 'a', key: 'k', schema: { uniqueItems: true }, value: many })

    assert.equal(nameOf(result), 'stopped')
    const next = await checks.check({ owner: 'b', key: 'k', schema: {}, value: json(1) })
    assert.equal(nameOf(next), 'faults')
  })

  it("limit one owner's waiting checks", async () => {
    await using checks = new SchemaChecks({ perOwner: 3, deadlineMs: 500, waitMs: 1_000, restMs: 500 })
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, i) => checks.check({ owner: 'a', key: `${i}`, ...slow })),
    )

    assert.ok(results.filter((result) => 'busy' in result).length >= 6)
  })
})
