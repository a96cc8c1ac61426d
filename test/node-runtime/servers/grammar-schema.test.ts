import assert from 'node:assert/strict'
import { grammarSchema } from '../../../node-runtime/servers/llama/grammar-schema.ts'

const strict = (schema: unknown) => grammarSchema(schema, { field: 'schema', isStrict: true })
const lenient = (schema: unknown) => grammarSchema(schema, { field: 'schema', isStrict: false })

describe('a schema for a llama.cpp grammar', () => {
  it('keeps the keywords that grammars support', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      title: 'Order',
      type: 'object',
      properties: {
        id: { type: ['string', 'null'], description: 'its name' },
        size: { enum: ['S', 'M'] },
        lines: { type: 'array', items: { $ref: '#/definitions/line' }, minItems: 1 },
        when: { type: 'string', format: 'date' },
      },
      required: ['id'],
      definitions: { line: { properties: { n: { type: 'integer', minimum: 1, maximum: 3 } } } },
    }

    assert.deepEqual(strict(schema), {
      type: 'object',
      properties: {
        id: { oneOf: [{ type: 'string' }, { type: 'null' }] },
        size: { enum: ['S', 'M'] },
        lines: { type: 'array', items: { $ref: '#/$defs/line' }, minItems: 1 },
        when: { type: 'string', format: 'date' },
      },
      additionalProperties: false,
      $defs: {
        line: { type: 'object', properties: { n: { enum: [1, 2, 3] } }, additionalProperties: false },
      },
    })
  })

  it('allows any members if it declares no properties', () => {
    const any = { type: 'object', properties: {}, additionalProperties: true }

    assert.deepEqual(strict({ type: 'object' }), any)
    assert.deepEqual(strict({ allOf: [{ type: 'object' }], title: 'Any' }), any)
  })

  for (const [what, schema, grammar] of [
    ['a root that refers to itself', { properties: { kid: { $ref: '#' } } }, { $defs: true }],
    [
      'a reference to a property',
      { properties: { a: { type: 'null' }, b: { $ref: '#/properties/a' } } },
      { properties: { a: { type: 'null' }, b: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'null' } } },
    ],
    [
      'an encoded name',
      { properties: { a: { $ref: '#/$defs/Page%5Bint~1x%5D' } }, $defs: { 'Page[int/x]': { type: 'null' } } },
      { properties: { a: { $ref: '#/$defs/d0' } }, $defs: { d0: { type: 'null' } } },
    ],
    [
      'a definition nested in a definition',
      { properties: { a: { $defs: { K: { type: 'null' } }, $ref: '#/properties/a/$defs/K' } } },
      { properties: { a: { $ref: '#/$defs/K' } }, $defs: { K: { type: 'null' } } },
    ],
    [
      'a draft 7 tuple',
      { items: [{ type: 'null' }, { type: 'string' }], additionalItems: false },
      { type: 'array', prefixItems: [{ type: 'null' }, { type: 'string' }], maxItems: 2 },
    ],
    [
      'a tuple of 2020-12',
      { type: 'array', prefixItems: [{ type: 'null' }], items: false },
      { type: 'array', prefixItems: [{ type: 'null' }], maxItems: 1 },
    ],
    [
      'an enum of objects and lists',
      { enum: [{ x: [1] }, 'y'] },
      {
        oneOf: [
          {
            type: 'object',
            properties: { x: { type: 'array', prefixItems: [{ const: 1 }], maxItems: 1 } },
            additionalProperties: false,
          },
          { const: 'y' },
        ],
      },
    ],
    [
      'parts that contradict each other',
      {
        allOf: [{ $ref: '#/$defs/A' }, { properties: { b: { type: 'null' } } }],
        $defs: { A: { type: 'object', properties: { a: { type: 'null' } }, required: ['a'] } },
      },
      {
        type: 'object',
        properties: { b: { type: 'null' }, a: { type: 'null' } },
        additionalProperties: false,
      },
    ],
    ['a bound on a number', { type: 'integer', minimum: 0 }, { type: 'integer' }],
    ['a string format', { type: 'string', format: 'email', maxLength: 3 }, { type: 'string', maxLength: 3 }],
    ['a pattern', { type: 'string', pattern: '^a' }, { type: 'string' }],
    [
      'a set',
      { type: 'array', items: { type: 'null' }, uniqueItems: true },
      { type: 'array', items: { type: 'null' } },
    ],
  ] as const) {
    it(`accepts ${what}, strict or not`, () => {
      for (const translated of [strict(schema), lenient(schema)]) {
        if ('$defs' in grammar && grammar.$defs === true) assert.ok(translated['$defs'])
        else assert.partialDeepStrictEqual(translated, grammar)
      }
    })
  }

  for (const [schemaPath, schema] of [
    ['schema.not', { type: 'string', not: { const: 'a' } }],
    ['schema.patternProperties', { type: 'object', patternProperties: { a: {} } }],
    ['schema.allOf', { allOf: [{ type: 'string' }, { type: 'null' }] }],
    ['schema.$ref', { allOf: [{ $ref: '#' }] }],
    ['schema.required', { properties: { a: { type: 'null' } }, required: ['b'] }],
    ['schema.type', { type: 'texte' }],
    ['schema.enum', { type: 'string', enum: [] }],
    ['schema.$ref', { $ref: '#/$defs/none' }],
    ['schema.$ref', { $ref: '#' }],
    ['schema.properties.a.$ref', { properties: { a: { $ref: 'https://schemas.example/a.json' } } }],
    ['schema.anyOf.1.$ref', { anyOf: [{ type: 'null' }, { $ref: '#' }] }],
  ] as const) {
    it(`rejects ${JSON.stringify(schema)} with strict, and accepts any value for ${schemaPath} without it`, () => {
      assert.throws(() => strict(schema), {
        message: new RegExp(`^${schemaPath.replaceAll('$', '\\$')}.* cannot be enforced`),
        field: schemaPath,
      })
      assert.doesNotThrow(() => lenient(schema))
    })
  }

  for (const [schemaPath, schema] of [
    ['schema', 'text'],
    ['schema.properties', { type: 'object', properties: [] }],
    ['schema.items', { type: 'array', items: 5 }],
    ['schema.anyOf', { anyOf: [] }],
    [
      'schema',
      {
        $ref: '#/$defs/N',
        $defs: {
          N: {
            properties: {
              x: { allOf: [{ $ref: '#/$defs/N' }, { properties: { x: { type: 'object' } } }] },
              y: { allOf: [{ $ref: '#/$defs/N' }, { maxProperties: 5 }] },
            },
          },
        },
      },
    ],
  ] as const) {
    it(`rejects ${JSON.stringify(schema).slice(0, 60)} and names ${schemaPath}`, () => {
      assert.throws(() => lenient(schema), { name: 'UnusableError', field: schemaPath })
    })
  }

  describe('that is small but expands to a large one', () => {
    const chain = (count: number, link: (next: string) => unknown) => ({
      $ref: '#/$defs/a0',
      $defs: {
        ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, link(`a${i + 1}`)])),
        [`a${count}`]: { type: 'string' },
      },
    })
    const ref = (name: string) => ({ $ref: `#/$defs/${name}` })
    const cpuMs = (run: () => void): number => {
      const before = process.cpuUsage()
      run()
      const { user, system } = process.cpuUsage(before)
      return (user + system) / 1000
    }

    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const) {
      it(`is rejected at once when 40 definitions each refer to the next one twice, in ${keyword}`, () => {
        const schema = chain(40, (next) => ({ [keyword]: [ref(next), ref(next)] }))

        const ms = cpuMs(() => {
          assert.throws(() => lenient(schema), {
            name: 'UnusableError',
            field: 'schema',
            message: /too large/,
          })
        })

        assert.ok(ms < 500, `${ms} ms`)
      })
    }

    it('keeps one definition per name when the references are in properties', () => {
      const schema = chain(40, (next) => ({ properties: { left: ref(next), right: { anyOf: [ref(next)] } } }))

      const { $defs } = strict(schema)

      assert.equal(Object.keys($defs as object).length, 41)
      assert.ok(JSON.stringify(strict(schema)).length < 20_000)
    })

    it('is rejected when a long chain of references is followed from many places', () => {
      const schema = { ...chain(5_000, ref), allOf: Array.from({ length: 5_000 }, () => ref('a0')) }

      const ms = cpuMs(() => {
        assert.throws(() => lenient({ ...schema, $ref: undefined }), { message: /too large/ })
      })

      assert.ok(ms < 500, `${ms} ms`)
    })

    it('supports definition names of any length', () => {
      const long = `${'a'.repeat(80_000)}!`

      const ms = cpuMs(() => {
        assert.deepEqual(strict({ ...ref(long), $defs: { [long]: { type: 'null' } } }), {
          $ref: '#/$defs/d0',
          $defs: { d0: { type: 'null' } },
        })
      })

      assert.ok(ms < 500, `${ms} ms`)
    })

    it('has a definition for each name, even if a name looks like a generated one', () => {
      const schema = {
        properties: { a: ref('d1'), b: ref('x-y'), c: ref('__proto__') },
        $defs: JSON.parse(
          '{"d1":{"type":"null"},"x-y":{"type":"string"},"__proto__":{"type":"boolean"}}',
        ) as unknown,
      }

      assert.deepEqual(Object.values(strict(schema)['$defs'] as object), [
        { type: 'null' },
        { type: 'string' },
        { type: 'boolean' },
      ])
    })
  })
})
