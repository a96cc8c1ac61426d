/** A validation error as reported by the validator; the location is a JSON pointer. */
interface RawValidationError {
  keyword: string
  error: string
  instanceLocation: string
}
/** A validation error in plain words, in the form library's format. */
export interface Fault {
  name: string
  /** The field to show it at, in the form library's notation. */
  property: string
  message: string
  /** The same message with the row number. */
  stack: string
}

const KINDS: Record<string, string> = {
  number: 'a number',
  integer: 'a whole number',
  string: 'text',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
}
/** Patterns of the validator's messages, each with the text that replaces it after the field name. */
const WORDS: readonly (readonly [RegExp, (part: string) => string])[] = [
  [/required property (".*")\.$/s, () => 'is required'],
  [/ Expected "(.*)"\.$/, (types) => `must be ${kindsOf(types)}`],
  [/ any of (\[.*\])\.$/s, (values) => `must be one of ${(JSON.parse(values) as unknown[]).join(', ')}`],
  [/ is less than (\S+)\.$/, (least) => `must be at least ${least}`],
  [/ is greater than (\S+)\.$/, (most) => `must be at most ${most}`],
  [/ too few items \(\d+ < (\d+)\)/, (least) => `needs at least ${least}`],
  [/ too many items \(\d+ > (\d+)\)/, (most) => `accepts at most ${most}`],
]

/** Converts a validation error to plain words at the affected field. */
export function faultOf({ keyword, error, instanceLocation }: RawValidationError): Fault {
  const path = pathOf(instanceLocation)
  const missing = / required property "(.*)"\.$/s.exec(error)?.[1]
  if (keyword === 'required' && missing !== undefined) path.push(missing)
  const row = path.findIndex(isIndex)
  const message = `${nameOf(path.at(-1))} ${formatValidationError(error)}`
  return {
    name: keyword,
    property: path.map((part) => `[${JSON.stringify(part)}]`).join(''),
    message,
    stack: row === -1 || row === path.length - 1 ? message : `${nameOf(path[row])}: ${message}`,
  }
}

function formatValidationError(error: string): string {
  for (const [pattern, words] of WORDS) {
    const found = pattern.exec(error)
    if (found) return words(found[1] ?? '')
  }
  return `is invalid: ${error}`
}

const kindsOf = (types: string): string =>
  types
    .split('", "')
    .flatMap((type) => (type === 'null' ? [] : [KINDS[type] ?? type]))
    .join(' or ')

const isIndex = (part: string): boolean => /^\d+$/.test(part)

function nameOf(part: string | undefined): string {
  if (part === undefined) return 'The input'
  return isIndex(part) ? `Row ${Number(part) + 1}` : part
}

const pathOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
