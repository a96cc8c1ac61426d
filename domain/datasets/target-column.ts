import type { TargetRule } from '../../schemas/model-config.ts'
import { listedNames, shortName } from './columns.ts'

interface Column {
  name: string
  type: string
}

const NUMBERS = new Set(['integer', 'number'])
/** Column types that can never be a number, and those that can never be a class; `any` may turn out to be either. */
const NEVER = {
  number: new Set(['boolean', 'string', 'date', 'timestamp', 'binary', 'list', 'object']),
  class: new Set(['binary', 'list', 'object']),
} as const
/** Ambiguous numbers are read as text. */
const ADVICE = '; write numbers as 1234.5, without thousands separators or units'
const IN_WORDS = { number: 'numbers', class: 'classes: text, whole numbers, booleans or dates' } as const

/**
 * Returns the column that a run predicts, chosen as its trainer would if none is named. Undefined when the choice
 * depends on the values, which only the trainer sees. Columns in `taken` aren't eligible.
 */
export function targetColumn(
  { usual, otherwise }: TargetRule,
  { named, taken, columns }: { named: string; taken: readonly unknown[]; columns: readonly Column[] },
): string | undefined {
  if (named !== '') return named
  const free = columns.filter(({ name }) => !taken.includes(name))
  const known = usual.find((name) => free.some((column) => column.name === name))
  if (known !== undefined) return known
  if (otherwise === 'last') return free.at(-1)?.name
  if (otherwise !== 'last_number') return undefined
  const numbers = free.filter(({ type }) => type === 'any' || NUMBERS.has(type))
  const [only] = numbers
  // If there are several columns, the trainer skips row counters and parts of timestamps, so we don't know its choice
  // here.
  return only && only.type !== 'any' && numbers.length === 1 ? only.name : undefined
}

/** Returns why a column cannot be the target; undefined when it can. */
export function missingTargetReason(
  { holds }: TargetRule,
  { model, target, columns }: { model: string; target: string; columns: readonly Column[] },
): string | undefined {
  const column = columns.find(({ name }) => name === target)
  if (!column || !NEVER[holds].has(column.type)) return undefined
  const fitting = columns.filter(({ type }) => !NEVER[holds].has(type)).map(({ name }) => name)
  const advice = holds === 'number' && column.type === 'string' ? ADVICE : ''
  return `the column ${shortName(target)} is of type ${column.type}, but ${model} predicts ${IN_WORDS[holds]}; columns that it can predict: ${listedNames(fitting)}${advice}`
}
