import { formatPattern } from '../schemas/forms.ts'

/** A JSON Schema violation: the keyword and the parameters of ajv's error. */
export interface SchemaFault {
  keyword: string
  params: Readonly<Record<string, unknown>>
  /** The schema that contains the keyword, if known. */
  parentSchema?: unknown
}

/** Limits in characters. Schemas written by callers may have longer lists of allowed values and longer names. */
const MAX_LIST = 2_000
const MAX_NAME = 200
/** The message for a `pattern` or `format` that only callers' schemas use. */
const ANOTHER_FORM = 'does not match the required format'

const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
}

const FORMATS: Readonly<Record<string, string>> = {
  uuid: 'must be a UUID',
  'date-time': 'must be a timestamp in ISO 8601, for example 2026-01-31T12:00:00Z',
  date: 'must be a date, for example 2026-01-31',
  uri: 'must be a URL',
  email: 'must be an email address',
}

const COMPARISONS: Readonly<Record<string, string>> = {
  '>=': 'at least',
  '<=': 'at most',
  '>': 'more than',
  '<': 'less than',
}

/**
 * Describes which requirement a value violates, without assuming knowledge of JSON Schema. It never quotes the value;
 * callers add the location.
 */
export function formatFault({ keyword, params, parentSchema }: SchemaFault): string {
  switch (keyword) {
    case 'type':
      return `must be ${formatTypes(params.type)}`
    case 'enum':
      return oneOf(params.allowedValues as unknown[])
    case 'const':
      return `must be ${short(JSON.stringify(params.allowedValue))}`
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `must be ${COMPARISONS[String(params.comparison)] ?? ''} ${String(params.limit)}`
    case 'multipleOf':
      return `must be a multiple of ${String(params.multipleOf)}`
    case 'minLength':
      return atLeast(params, 'characters')
    case 'minItems':
      return atLeast(params, 'items')
    case 'minProperties':
      return atLeast(params, 'fields', namesOf(parentSchema))
    case 'maxLength':
      return `must have at most ${String(params.limit)} characters`
    case 'maxItems':
      return `must have at most ${String(params.limit)} items`
    case 'maxProperties':
      return `must have at most ${String(params.limit)} fields`
    case 'uniqueItems':
      return `must not contain the same item twice (items ${String(params.j)} and ${String(params.i)})`
    case 'contains':
      return 'lacks an item that the schema requires'
    case 'pattern':
      return formatPattern(String(params.pattern)) ?? ANOTHER_FORM
    case 'format':
      return FORMATS[String(params.format)] ?? ANOTHER_FORM
    case 'propertyNames':
      return 'has a field whose name does not match the required format'
    case 'required':
    case 'dependentRequired':
      return `lacks the field ${short(params.missingProperty)}`
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return 'has an unknown field'
    case 'anyOf':
      return 'matches none of the forms that the schema allows'
    case 'oneOf':
      return Array.isArray(params.passingSchemas)
        ? 'matches more than one form, but the schema allows only one'
        : 'matches none of the forms that the schema allows'
    case 'not':
    case 'false schema':
      return 'matches a form that the schema forbids'
    default:
      return `violates the schema rule ${keyword}`
  }
}

const formatTypes = (types: unknown): string =>
  [types]
    .flat()
    .flatMap((type) => String(type).split(','))
    .map((type) => TYPES[type] ?? type)
    .join(' or ')

function atLeast({ limit }: SchemaFault['params'], what: string, names: readonly string[] = []): string {
  if (limit !== 1) return `must have at least ${String(limit)} ${what}`
  return names.length > 0 ? `must have at least one of ${names.join(', ')}` : 'must not be empty'
}

const namesOf = (schema: unknown): string[] =>
  Object.keys((schema as { properties?: object } | undefined)?.properties ?? {})

/** Lists the allowed values, truncated to the length limit. */
export const oneOf = (values: readonly unknown[]): string =>
  `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`.slice(0, MAX_LIST)

/** Truncates a name that comes from the caller, which may be as long as the request body. */
export const short = (name: unknown): string => String(name).slice(0, MAX_NAME)
