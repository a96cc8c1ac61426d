import { readFileSync } from 'node:fs'
import { usageError } from '../cli-error.ts'

export type JsonObject = Record<string, unknown>

const STANDARD_INPUT = 0
/** Some editors write it at the start of a file. */
const BYTE_ORDER_MARK = /^\uFEFF/

/** Reads a JSON object from a file, or from standard input if the file is `-`. */
export function readObject(file: string): JsonObject {
  const source = file === '-' ? 'standard input' : file
  let text: string
  try {
    text = readFileSync(file === '-' ? STANDARD_INPUT : file, 'utf8')
  } catch (err) {
    throw usageError(`${source} cannot be read: ${whyUnreadable(err as NodeJS.ErrnoException)}`)
  }
  return objectIn(text, source)
}

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'part of its path is not a folder',
  EACCES: 'permission denied',
}

const whyUnreadable = ({ code = '', message }: NodeJS.ErrnoException): string => UNREADABLE[code] ?? message

/** Matches text that starts like JSON. To pass a file whose name looks like JSON, such as `5`, write `./5`. */
const JSON_TEXT = /^\s*(?:[{["]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)/

/** Reads the input of a run, given as JSON or as the name of a JSON file. */
export const readInput = (given: string): JsonObject =>
  JSON_TEXT.test(given) ? objectIn(given, '--input') : readObject(given)

function objectIn(text: string, place: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(text.replace(BYTE_ORDER_MARK, ''))
  } catch (err) {
    throw usageError(`${place} is not JSON: ${(err as Error).message}`)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject
  throw usageError(`${place} must contain a JSON object`)
}

/** Returns the graph in a file. The file may also be a run request that has the graph as `plan`. */
export function graphIn(file: string, content: JsonObject): JsonObject {
  const graph = 'stages' in content ? content : content['plan']
  if (typeof graph === 'object' && graph !== null && !Array.isArray(graph)) return graph as JsonObject
  throw usageError(`${file} is not a graph: it needs "stages" and "edges" (docs/cohorts.md)`)
}

/** Returns a run request: the content of the file, or the file's graph combined with `input`. */
export function runIn(file: string, content: JsonObject, input: JsonObject | undefined): JsonObject {
  if ('stages' in content) return { plan: content, input: input ?? {} }
  if (!('plan' in content) && !('plan_id' in content))
    throw usageError(
      `${file} is not a run request: it needs "stages" and "edges", or "plan" or "plan_id" with "input"`,
    )
  return { input: {}, ...content, ...(input && { input }) }
}
