import type { ErrorObject as AjvError } from 'ajv/dist/2020.js'
import type { Issue } from '../../domain/errors.ts'
import { formInWords } from '../../schemas/forms.ts'

type ErrorObject = Pick<AjvError, 'keyword' | 'instancePath' | 'params' | 'message' | 'parentSchema'>
export type Where = 'body' | 'query' | 'path' | 'header' | 'response'

const MOST = 100
const LONGEST_NAME = 200
/** Of a list of allowed values as a message repeats it: those of schemas that callers wrote may be as long as these. */
const LONGEST_LIST = 2_000
/** Of schemas that callers wrote. */
const ANOTHER_FORM = 'has not the form that the schema gives'
const FORMATS: Readonly<Record<string, string>> = {
  uuid: 'must be a UUID',
  'date-time': 'must be a timestamp in ISO 8601, for example 2026-01-31T12:00:00Z',
  date: 'must be a date, for example 2026-01-31',
  uri: 'must be a URL',
  email: 'must be an email address',
}

/** What ajv found, as the `detail` of a 422 spells it. */
export function toIssues(where: Where, errors: readonly ErrorObject[]): Issue[] {
  const telling = errors.filter((error) => !isNoise(error, errors))
  return (telling.length ? telling : errors).slice(0, MOST).map((error) => toIssue(where, error))
}

/**
 * The branch for `null` and the verdict on the whole union say nothing that the other branch does not say better, and
 * what chooses between shapes is told to be missing where it is.
 */
function isNoise(error: ErrorObject, all: readonly ErrorObject[]): boolean {
  if (error.keyword === 'discriminator' && error.params.tagValue === undefined) {
    return all.some(
      ({ keyword, instancePath }) => keyword === 'required' && instancePath === error.instancePath,
    )
  }
  if (error.keyword === 'if' || all.some((union) => isBranchOf(error, union))) return true
  if (membersToChoose(error)) return false
  const isNullBranch = error.keyword === 'type' && error.params.type === 'null'
  if (!isNullBranch && error.keyword !== 'anyOf') return false
  return all.some((other) => other !== error && other.instancePath.startsWith(error.instancePath))
}

/** The members of which an object takes one, when that is what this fault is about. */
function membersToChoose(error: ErrorObject): string[] | undefined {
  const branches = branchesOf(error)
  const isChoice = branches.every((branch) => Object.keys(branch).join() === 'required')
  const names = branches.flatMap(({ required = [] }) => required)
  return isChoice && names.length > 0 ? names : undefined
}

function branchesOf({ keyword, parentSchema }: ErrorObject): { required?: string[] }[] {
  if (keyword !== 'anyOf' && keyword !== 'oneOf') return []
  return (parentSchema?.[keyword] ?? []) as { required?: string[] }[]
}

/** That one member is missing says nothing where another one would do. */
const isBranchOf = ({ keyword, parentSchema }: ErrorObject, union: ErrorObject): boolean =>
  keyword === 'required' &&
  membersToChoose(union) !== undefined &&
  branchesOf(union).some((branch) => branch === parentSchema)

function toIssue(where: Where, error: ErrorObject): Issue {
  const loc: (string | number)[] = [where, ...pointer(error.instancePath)]
  const choice = membersToChoose(error)
  if (choice) {
    const [first = ''] = choice
    const isBoth = Array.isArray(error.params.passingSchemas)
    if (isBoth) return { loc: [...loc, first], msg: `Give one of ${choice.join(', ')}`, type: 'value_error' }
    return { loc: [...loc, first], msg: `Field required: ${choice.join(' or ')}`, type: 'missing' }
  }
  switch (error.keyword) {
    case 'required':
      return { loc: [...loc, short(error.params.missingProperty)], msg: 'Field required', type: 'missing' }
    case 'additionalProperties':
      return {
        loc: [...loc, short(error.params.additionalProperty)],
        msg: 'Unknown field',
        type: 'extra_forbidden',
      }
    case 'enum':
      return {
        loc,
        msg: oneOf(error.params.allowedValues as unknown[]),
        type: 'enum',
      }
    case 'discriminator':
      return {
        loc: [...loc, error.params.tag],
        msg: `${oneOf(tagsOf(error))}, not ${short(JSON.stringify(error.params.tagValue))}`,
        type: 'discriminator',
      }
    case 'minLength':
    case 'minItems': {
      const what = error.keyword === 'minItems' ? 'items' : 'characters'
      const { limit } = error.params as { limit: number }
      const msg = limit === 1 ? 'must not be empty' : `must have at least ${limit} ${what}`
      return { loc, msg, type: error.keyword }
    }
    case 'maxLength':
    case 'maxItems': {
      const what = error.keyword === 'maxItems' ? 'items' : 'characters'
      return { loc, msg: `must have at most ${String(error.params.limit)} ${what}`, type: error.keyword }
    }
    case 'pattern':
      return { loc, msg: formInWords(String(error.params.pattern)) ?? ANOTHER_FORM, type: error.keyword }
    case 'format':
      return { loc, msg: FORMATS[String(error.params.format)] ?? ANOTHER_FORM, type: error.keyword }
    default:
      return { loc, msg: error.message ?? 'is not valid', type: error.keyword }
  }
}

/** `/instances/0/a~1b` is `['instances', 0, 'a/b']`. */
const pointer = (path: string): (string | number)[] =>
  path
    .split('/')
    .slice(1)
    .map((part) => (/^\d{1,9}$/.test(part) ? Number(part) : part.replaceAll('~1', '/').replaceAll('~0', '~')))

const oneOf = (values: readonly unknown[]): string =>
  `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`.slice(0, LONGEST_LIST)

/** The values of the member that chooses between shapes, as the schema of each shape gives its own. */
function tagsOf({ params, parentSchema }: ErrorObject): unknown[] {
  const shapes = (parentSchema?.oneOf ?? []) as { properties?: Record<string, { const?: unknown }> }[]
  return shapes.map(({ properties }) => properties?.[params.tag]?.const)
}

/** Names come from the caller, and may be as long as its body. */
const short = (name: unknown): string => String(name).slice(0, LONGEST_NAME)
