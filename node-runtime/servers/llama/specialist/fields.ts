import { InputProblem } from './problems.ts'

/** The maximum number of texts in one request. */
export const MAX_TEXTS = 2_048

export type Body = Readonly<Record<string, unknown>>

/** Returns the strings in a field that contains a string or a list of strings. */
export function textsOf(body: Body, name: string): { texts: readonly string[]; isOne: boolean } {
  const value = body[name]
  if (typeof value === 'string') return { texts: [value], isOne: true }
  if (!Array.isArray(value) || value.length === 0)
    throw new InputProblem(`${name} must be a string or a non-empty list of strings`, `/${name}`)
  return { texts: listOf(value, name), isOne: false }
}

/** Validates a list of texts. */
export function listOf(value: unknown, name: string): readonly string[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new InputProblem(`${name} must be a non-empty list of strings`, `/${name}`)
  if (value.length > MAX_TEXTS)
    throw new InputProblem(`${name} has ${value.length} texts; at most ${MAX_TEXTS} are accepted`, `/${name}`)
  return value.map((text: unknown, index) => {
    if (typeof text === 'string') return text
    throw new InputProblem(`${name}[${index}] must be a string`, `/${name}/${index}`)
  })
}

/** Returns a required string field. */
export function textOf(body: Body, name: string): string {
  const value = body[name]
  if (typeof value === 'string') return value
  throw new InputProblem(`${name} must be a string`, `/${name}`)
}

/** Returns an optional field that contains a positive integer. */
export function countOf(body: Body, name: string): number | undefined {
  const value = body[name]
  if (value === undefined || value === null) return undefined
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value
  throw new InputProblem(`${name} must be an integer of at least 1`, `/${name}`)
}

/** Returns whether to truncate texts that are too long. */
export function truncates(body: Body): boolean {
  const truncate = body['truncate'] ?? true
  if (typeof truncate === 'boolean') return truncate
  throw new InputProblem('truncate must be true or false', '/truncate')
}
