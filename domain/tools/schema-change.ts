import { canonicalJson } from '../canonical-json.ts'
import type { ChangeWeight } from './version.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Effects of a schema change on the values it accepts; their sum describes the whole change. */
const SAME = 0
/** Accepts values that it rejected before. */
const WIDER = 1
/** Rejects values that it accepted before. */
const NARROWER = 2
/** Describes a property that it left open before. */
const ADDED = 4
/** Lost a property, or changed in a way whose effect is unknown. */
const BROKEN = 8

type Effects = number
type Comparison = (before: unknown, after: unknown) => Effects

/**
 * Returns how a JSON Schema change affects callers. An input change breaks them if it rejects more than before; an
 * output change breaks them if it allows more. Either breaks them if it loses a property. Titles, descriptions,
 * defaults and examples count as a patch. Keywords are compared one by one, because a schema is the conjunction of its
 * keywords. A change to a keyword unknown here counts as breaking.
 */
export function schemaChange(side: 'input' | 'output', before: unknown, after: unknown): ChangeWeight {
  const effects = compareSchemas(before, after)
  const breaking = BROKEN | (side === 'input' ? NARROWER : WIDER)
  if (effects & breaking) return 'major'
  return effects === SAME ? 'patch' : 'minor'
}

const ANYTHING: JsonObject = {}

function compareSchemas(before: unknown, after: unknown): Effects {
  const [from, to] = [schemaOf(before), schemaOf(after)]
  if (from === 'unknown' || to === 'unknown') return BROKEN
  if (from === 'nothing') return to === 'nothing' ? SAME : WIDER
  if (to === 'nothing') return NARROWER
  let effects = compareValues(valuesOf(from), valuesOf(to))
  for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
    if (IGNORED.has(name) || name.startsWith(VENDOR_PREFIX)) continue
    const compare = KEYWORDS.get(name) ?? compareUnknown
    effects |= compare(from[name], to[name])
  }
  return effects
}

/** `true` and an absent schema accept everything, `false` accepts nothing. */
function schemaOf(schema: unknown): JsonObject | 'nothing' | 'unknown' {
  if (schema === undefined || schema === true) return ANYTHING
  if (schema === false) return 'nothing'
  return isObject(schema) ? schema : 'unknown'
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Keywords that don't affect the accepted values, and those that `compareValues` compares together. */
const IGNORED = new Set([
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  '$comment',
  '$schema',
  '$id',
  'enum',
  'const',
])

const VENDOR_PREFIX = 'x-'

const KEYWORDS = new Map<string, Comparison>(
  Object.entries({
    type: compareTypes,
    required: compareRequired,
    properties: compareProperties,
    additionalProperties: compareSchemas,
    items: compareSchemas,
    $defs: additionsOf(compareNamed),
    definitions: additionsOf(compareNamed),
    patternProperties: compareNamed,
    anyOf: compareBranches,
    oneOf: additionsOf(compareBranches),
    allOf: compareBranches,
    prefixItems: compareBranches,
    minimum: lowerBound(Number.NEGATIVE_INFINITY),
    exclusiveMinimum: lowerBound(Number.NEGATIVE_INFINITY),
    minLength: lowerBound(0),
    minItems: lowerBound(0),
    minProperties: lowerBound(0),
    maximum: upperBound,
    exclusiveMaximum: upperBound,
    maxLength: upperBound,
    maxItems: upperBound,
    maxProperties: upperBound,
    pattern: compareConstraint,
    format: compareConstraint,
    multipleOf: compareConstraint,
    uniqueItems: (before, after) => compareConstraint(before || undefined, after || undefined),
  }),
)

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

function compareTypes(before: unknown, after: unknown): Effects {
  return compareSets(typesOf(before), typesOf(after))
}

/** Every integer is also a number. */
function typesOf(type: unknown): Set<string> {
  const names = type === undefined ? TYPES : ([type].flat() as string[])
  return new Set(names.includes('number') ? [...names, 'integer'] : names)
}

/** Returns the values that `enum` or `const` allows, serialized as JSON; undefined when they allow any. */
function valuesOf({ const: only, enum: several }: JsonObject): Set<string> | undefined {
  if (only !== undefined) return new Set([canonicalJson(only)])
  return Array.isArray(several) ? new Set(several.map(canonicalJson)) : undefined
}

function compareValues(before: Set<string> | undefined, after: Set<string> | undefined): Effects {
  if (!before) return after ? NARROWER : SAME
  return after ? compareSets(before, after) : WIDER
}

const compareSets = (before: ReadonlySet<string>, after: ReadonlySet<string>): Effects =>
  (after.isSubsetOf(before) ? SAME : WIDER) | (before.isSubsetOf(after) ? SAME : NARROWER)

function compareRequired(before: unknown, after: unknown): Effects {
  const names = (list: unknown) => new Set(Array.isArray(list) ? (list as string[]) : [])
  const [from, to] = [names(before), names(after)]
  return (from.isSubsetOf(to) ? SAME : WIDER) | (to.isSubsetOf(from) ? SAME : NARROWER)
}

/** A new property is an addition even if any value was accepted under its name before. */
function compareProperties(before: unknown, after: unknown): Effects {
  const [from, to] = [isObject(before) ? before : ANYTHING, isObject(after) ? after : ANYTHING]
  let effects = SAME
  for (const name of Object.keys(to)) if (!Object.hasOwn(from, name)) effects |= ADDED
  for (const [name, schema] of Object.entries(from)) {
    effects |= Object.hasOwn(to, name) ? compareSchemas(schema, to[name]) : BROKEN
  }
  return effects
}

/** Compares schemas by name. The effect of an added or removed schema is unknown. */
function compareNamed(before: unknown, after: unknown): Effects {
  const [from, to] = [isObject(before) ? before : ANYTHING, isObject(after) ? after : ANYTHING]
  let effects = Object.keys(to).every((name) => Object.hasOwn(from, name)) ? SAME : BROKEN
  for (const [name, schema] of Object.entries(from)) {
    effects |= Object.hasOwn(to, name) ? compareSchemas(schema, to[name]) : BROKEN
  }
  return effects
}

/** Compares lists of schemas by position; lists of different lengths aren't compared. */
function compareBranches(before: unknown, after: unknown): Effects {
  if (!Array.isArray(before) || !Array.isArray(after) || before.length !== after.length)
    return compareUnknown(before, after)
  return before.reduce<Effects>((effects, schema, i) => effects | compareSchemas(schema, after[i]), SAME)
}

/**
 * For schemas in which wider parts may make the whole narrower, as under `oneOf` or behind a reference under `not`:
 * only property additions pass.
 */
function additionsOf(compare: Comparison): Comparison {
  return (before, after) => {
    const effects = compare(before, after)
    return effects & ~ADDED ? BROKEN : effects
  }
}

function lowerBound(absent: number): Comparison {
  return (before, after) => {
    const [from, to] = [Number(before ?? absent), Number(after ?? absent)]
    if (from === to) return SAME
    return to > from ? NARROWER : WIDER
  }
}

function upperBound(before: unknown, after: unknown): Effects {
  const absent = Number.POSITIVE_INFINITY
  const [from, to] = [Number(before ?? absent), Number(after ?? absent)]
  if (from === to) return SAME
  return to < from ? NARROWER : WIDER
}

/** For keywords whose values can't be compared, only compares presence. */
function compareConstraint(before: unknown, after: unknown): Effects {
  if (before === after) return SAME
  if (before === undefined) return NARROWER
  return after === undefined ? WIDER : BROKEN
}

const compareUnknown: Comparison = (before, after) => {
  if (before === undefined || after === undefined) return before === after ? SAME : BROKEN
  return canonicalJson(before) === canonicalJson(after) ? SAME : BROKEN
}
