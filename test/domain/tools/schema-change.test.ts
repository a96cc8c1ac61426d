import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { randomNumbers } from '../../../bench/random-numbers.ts'
import { schemaChange } from '../../../domain/tools/schema-change.ts'
import { type ChangeWeight, nextVersion } from '../../../domain/tools/version.ts'

type Json = Record<string, unknown>

const object = (properties: Json, required: string[] = [], more: Json = {}): Json => ({
  type: 'object',
  properties,
  required,
  ...more,
})
const STRING = { type: 'string' }

describe('the severity of a schema change (9.3)', () => {
  const CASES: [string, unknown, unknown, input: ChangeWeight, output: ChangeWeight][] = [
    ['nothing', object({ a: STRING }), object({ a: STRING }), 'patch', 'patch'],
    [
      'a description',
      object({ a: STRING }),
      object({ a: { ...STRING, description: 'x' } }),
      'patch',
      'patch',
    ],
    ['a default', { ...STRING, default: 'a' }, { ...STRING, default: 'b' }, 'patch', 'patch'],
    ['the order of required properties', object({}, ['a', 'b']), object({}, ['b', 'a']), 'patch', 'patch'],
    ['a new optional property', object({}), object({ a: STRING }), 'minor', 'minor'],
    ['a new required property', object({}), object({ a: STRING }, ['a']), 'major', 'minor'],
    ['a removed property', object({ a: STRING }), object({}), 'major', 'major'],
    ['a renamed property', object({ a: STRING }), object({ b: STRING }), 'major', 'major'],
    [
      'a property that becomes required',
      object({ a: STRING }),
      object({ a: STRING }, ['a']),
      'major',
      'minor',
    ],
    [
      'a property that is no longer required',
      object({ a: STRING }, ['a']),
      object({ a: STRING }),
      'minor',
      'major',
    ],
    ['a wider type', STRING, { type: ['string', 'null'] }, 'minor', 'major'],
    ['a narrower type', { type: 'number' }, { type: 'integer' }, 'major', 'minor'],
    ['a different type', STRING, { type: 'boolean' }, 'major', 'major'],
    ['a type where there was none', {}, STRING, 'major', 'minor'],
    ['an added enum value', { enum: ['a'] }, { enum: ['a', 'b'] }, 'minor', 'major'],
    ['a removed enum value', { enum: ['a', 'b'] }, { const: 'a' }, 'major', 'minor'],
    ['a higher minimum', { minimum: 1 }, { minimum: 2 }, 'major', 'minor'],
    ['a higher maximum', { maximum: 1 }, { maximum: 2 }, 'minor', 'major'],
    ['a new maximum', {}, { maxLength: 2 }, 'major', 'minor'],
    ['a minimum with no effect', {}, { minLength: 0 }, 'patch', 'patch'],
    [
      'no longer allowing other properties',
      object({}),
      object({}, [], { additionalProperties: false }),
      'major',
      'minor',
    ],
    [
      'allowing other properties',
      object({}, [], { additionalProperties: false }),
      object({}),
      'minor',
      'major',
    ],
    ['items', { items: STRING }, { items: { ...STRING, minLength: 1 } }, 'major', 'minor'],
    ['a new pattern', STRING, { ...STRING, pattern: '^a' }, 'major', 'minor'],
    ['a different pattern', { pattern: '^a' }, { pattern: '^b' }, 'major', 'major'],
    [
      'a removed nested property',
      object({ a: object({ b: STRING }) }),
      object({ a: object({}) }),
      'major',
      'major',
    ],
    ['an added choice', { anyOf: [STRING] }, { anyOf: [STRING, { type: 'null' }] }, 'major', 'major'],
    ['a vendor keyword', {}, { 'x-unit': 'm' }, 'patch', 'patch'],
    ['an unknown keyword', {}, { unit: 'm' }, 'major', 'major'],
    [
      'a description in a choice',
      { anyOf: [STRING, { type: 'null' }] },
      { anyOf: [{ ...STRING, description: 'x' }, { type: 'null' }] },
      'patch',
      'patch',
    ],
    ['a wider branch', { anyOf: [{ minLength: 2 }] }, { anyOf: [{ minLength: 1 }] }, 'minor', 'major'],
    ['a wider branch in a oneOf', { oneOf: [{ minLength: 2 }] }, { oneOf: [{}] }, 'major', 'major'],
    [
      'an optional property of a definition',
      { $defs: { a: object({}) }, $ref: '#/$defs/a' },
      { $defs: { a: object({ b: STRING }) }, $ref: '#/$defs/a' },
      'minor',
      'minor',
    ],
    [
      'a description in a definition',
      { $defs: { a: STRING }, $ref: '#/$defs/a' },
      { $defs: { a: { ...STRING, title: 'A' } }, $ref: '#/$defs/a' },
      'patch',
      'patch',
    ],
    ['a keyword with the name of a method', {}, { constructor: 1 }, 'major', 'major'],
    [
      'a definition',
      { $defs: { a: STRING }, $ref: '#/$defs/a' },
      { $defs: { a: {} }, $ref: '#/$defs/a' },
      'major',
      'major',
    ],
    ['a schema that no longer allows anything', true, false, 'major', 'minor'],
    ['the first schema of an output', {}, object({ a: STRING }), 'major', 'minor'],
  ]
  for (const [name, before, after, input, output] of CASES) {
    it(`is ${input} for an input and ${output} for an output: ${name}`, () => {
      assert.equal(schemaChange('input', before, after), input)
      assert.equal(schemaChange('output', before, after), output)
    })
  }

  it('is never too low for the values a change rejects or accepts, over 1,000 random changes', () => {
    const random = randomNumbers(20_261_123)
    const ajv = new Ajv2020({ strict: false })
    let [refused, accepted] = [0, 0]
    for (let round = 0; round < 1_000; round++) {
      const before = randomSchema(random, 3)
      const after = random() < 0.8 ? mutate(before, random) : randomSchema(random, 3)
      const [old, now] = [ajv.compile(before), ajv.compile(after)]
      const weights = {
        input: schemaChange('input', before, after),
        output: schemaChange('output', before, after),
      }
      const described = () => JSON.stringify({ before, after })
      for (let n = 0; n < 12; n++) {
        const value = randomValue(random, 3)
        // A new property counts as an addition, although the old schema accepted anything under its name.
        if (namesNew(before, after, value)) continue
        const [was, is] = [old(value), now(value)]
        if (was && !is) {
          refused += 1
          assert.equal(weights.input, 'major', `${described()} refuses ${JSON.stringify(value)}`)
        }
        if (is && !was) {
          accepted += 1
          assert.notEqual(weights.input, 'patch', described())
          assert.equal(weights.output, 'major', `${described()} accepts ${JSON.stringify(value)}`)
        }
      }
      assert.equal(schemaChange('input', before, structuredClone(before)), 'patch')
    }
    assert.ok(refused > 100 && accepted > 100, `${refused} and ${accepted} values tell the schemas apart`)
  })
})

describe('the next version', () => {
  it('resets the numbers below the changed one', () => {
    assert.equal(nextVersion('1.2.3', 'major'), '2.0.0')
    assert.equal(nextVersion('1.2.3', 'minor'), '1.3.0')
    assert.equal(nextVersion('1.2.3', 'patch'), '1.2.4')
  })
})

type Random = () => number
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
const NAMES = ['a', 'b', 'c']
const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

function randomSchema(random: Random, depth: number): Json {
  const type = pick(random, TYPES)
  const schema: Json = random() < 0.9 ? { type } : {}
  if (random() < 0.2) schema['type'] = [type, 'null'].filter((name, at, all) => all.indexOf(name) === at)
  if (random() < 0.15) schema['enum'] = NAMES.slice(0, 1 + Math.floor(random() * 3))
  if (random() < 0.3)
    schema[pick(random, ['minimum', 'maximum', 'exclusiveMinimum'])] = Math.floor(random() * 4)
  if (random() < 0.2)
    schema[
      pick(random, ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'])
    ] = Math.floor(random() * 3)
  if (random() < 0.1)
    schema[pick(random, ['anyOf', 'oneOf', 'allOf'])] = [randomSchema(random, 0), randomSchema(random, 0)]
  if (depth === 0) return schema
  if (random() < 0.5) {
    const names = NAMES.filter(() => random() < 0.5)
    schema['properties'] = Object.fromEntries(names.map((name) => [name, randomSchema(random, depth - 1)]))
    if (random() < 0.5) schema['required'] = NAMES.filter(() => random() < 0.3)
    if (random() < 0.3) schema['additionalProperties'] = random() < 0.5 ? false : randomSchema(random, 0)
  }
  if (random() < 0.3) schema['items'] = randomSchema(random, depth - 1)
  return schema
}

/** Changes one random keyword of a schema. */
function mutate(schema: Json, random: Random): Json {
  const copy = structuredClone(schema)
  const properties = copy['properties'] as Json | undefined
  const inner = properties && Object.keys(properties)
  if (inner && inner.length > 0 && random() < 0.5) {
    const name = pick(random, inner)
    properties[name] = mutate(properties[name] as Json, random)
    return copy
  }
  const other = randomSchema(random, 2)
  const keyword = pick(random, [...Object.keys(other), ...Object.keys(copy), 'type'])
  if (random() < 0.3 || !(keyword in other)) delete copy[keyword]
  else copy[keyword] = other[keyword]
  return copy
}

function randomValue(random: Random, depth: number): unknown {
  const kind = random()
  if (kind < 0.2) return pick(random, ['', 'a', 'b', 'c', 'long text'])
  if (kind < 0.4) return pick(random, [-1, 0, 0.5, 1, 2, 3, 4.5])
  if (kind < 0.5) return pick(random, [true, false, null])
  if (depth === 0) return 'a'
  if (kind < 0.65)
    return Array.from({ length: Math.floor(random() * 3) }, () => randomValue(random, depth - 1))
  const names = NAMES.filter(() => random() < 0.5)
  return Object.fromEntries(names.map((name) => [name, randomValue(random, depth - 1)]))
}

/** Returns whether a value has a property that only the later schema describes. */
function namesNew(before: unknown, after: unknown, value: unknown): boolean {
  if (typeof before !== 'object' || typeof after !== 'object' || !before || !after) return false
  if (Array.isArray(value))
    return value.some((item) => namesNew((before as Json)['items'] ?? {}, (after as Json)['items'], item))
  if (typeof value !== 'object' || value === null) return false
  const [old, now] = [(before as Json)['properties'] ?? {}, (after as Json)['properties'] ?? {}] as [
    Json,
    Json,
  ]
  return Object.entries(value).some(([name, inner]) =>
    name in now && !(name in old) ? true : name in now && namesNew(old[name], now[name], inner),
  )
}
