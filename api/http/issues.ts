import type { ErrorObject as AjvError } from 'ajv/dist/2020.js'
import type { Issue } from '../../domain/errors.ts'
import { formatFault, oneOf, short } from '../../domain/format-faults.ts'
import { didYouMean } from '../../domain/nearest-name.ts'
import { belongsTo } from './member-paths.ts'

type ErrorObject = Pick<AjvError, 'keyword' | 'instancePath' | 'params' | 'parentSchema'>
export type MessagePart = 'body' | 'query' | 'path' | 'header' | 'response'

const MAX_ISSUES = 100
const UNKNOWN_FIELD = 'Unknown field'
/** Each error is compared with all others, so limit how many we look at. */
const MAX_COMPARED = 1_000

/** Converts ajv's errors to the `detail` of a 422. The whole schema helps us find where a misplaced field belongs. */
export function toIssues(where: MessagePart, all: readonly ErrorObject[], schema?: object): Issue[] {
  const errors = all.slice(0, MAX_COMPARED)
  const telling = errors.filter((error) => !isNoise(error, errors))
  const issues = (telling.length ? telling : errors)
    .slice(0, MAX_ISSUES)
    .map((error) => toIssue(where, error, schema))
  // A typo in a field name explains the missing field, so put it first: the first issue becomes the error's message.
  return [...issues.filter(isTypo), ...issues.filter((issue) => !isTypo(issue))]
}

const isTypo = ({ type, msg }: Issue): boolean => type === 'extra_forbidden' && msg !== UNKNOWN_FIELD

/**
 * Returns whether another error explains the problem better. The `null` branch and the error of the union as a whole
 * add nothing, and a missing discriminator has its own error.
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

/** If the error says that an object needs one of several members, returns those members. */
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

/** A missing member isn't an error by itself if another member would satisfy the union. */
const isBranchOf = ({ keyword, parentSchema }: ErrorObject, union: ErrorObject): boolean =>
  keyword === 'required' &&
  membersToChoose(union) !== undefined &&
  branchesOf(union).some((branch) => branch === parentSchema)

function toIssue(where: MessagePart, error: ErrorObject, schema?: object): Issue {
  const loc: (string | number)[] = [where, ...pointer(error.instancePath)]
  const choice = membersToChoose(error)
  if (choice) {
    const [first = ''] = choice
    const isBoth = Array.isArray(error.params.passingSchemas)
    if (isBoth)
      return { loc: [...loc, first], msg: `Set exactly one of ${choice.join(', ')}`, type: 'value_error' }
    return { loc: [...loc, first], msg: `Field required: ${choice.join(' or ')}`, type: 'missing' }
  }
  switch (error.keyword) {
    case 'required':
      return { loc: [...loc, short(error.params.missingProperty)], msg: 'Field required', type: 'missing' }
    case 'dependentRequired':
      return {
        loc: [...loc, short(error.params.missingProperty)],
        msg: `Field required with ${short(error.params.property)}`,
        type: 'missing',
      }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const { additionalProperty, unevaluatedProperty } = error.params
      const name = short(additionalProperty ?? unevaluatedProperty)
      const meant = didYouMean(name, membersOf(error)) || belongsTo(schema, name, loc.slice(1))
      return {
        loc: [...loc, name],
        msg: `${UNKNOWN_FIELD}${meant && `; ${meant}`}`,
        type: 'extra_forbidden',
      }
    }
    case 'discriminator':
      return {
        loc: [...loc, error.params.tag],
        msg: `${oneOf(tagsOf(error))}, not ${short(JSON.stringify(error.params.tagValue))}`,
        type: 'discriminator',
      }
    default:
      return { loc, msg: formatFault(error), type: error.keyword }
  }
}

const membersOf = ({ parentSchema }: ErrorObject): string[] =>
  Object.keys((parentSchema?.properties ?? {}) as object)

/** `/instances/0/a~1b` is `['instances', 0, 'a/b']`. */
const pointer = (path: string): (string | number)[] =>
  path
    .split('/')
    .slice(1)
    .map((part) => (/^\d{1,9}$/.test(part) ? Number(part) : part.replaceAll('~1', '/').replaceAll('~0', '~')))

/** Returns the allowed values of the discriminator, from the schemas of all branches. */
function tagsOf({ params, parentSchema }: ErrorObject): unknown[] {
  const shapes = (parentSchema?.oneOf ?? []) as { properties?: Record<string, { const?: unknown }> }[]
  return shapes.map(({ properties }) => properties?.[params.tag]?.const)
}
