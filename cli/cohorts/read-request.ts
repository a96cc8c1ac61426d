import { readFileSync } from 'node:fs'
import { usageError } from '../cli-error.ts'

export type JsonObject = Record<string, unknown>

const STANDARD_INPUT = 0
/** Editors of some systems write it in front of a text. */
const BYTE_ORDER_MARK = /^\uFEFF/

/** Reads a JSON object from a file, or from standard input where the file is called `-`. */
export function readObject(file: string): JsonObject {
  const place = file === '-' ? 'standard input' : file
  let text: string
  try {
    text = readFileSync(file === '-' ? STANDARD_INPUT : file, 'utf8')
  } catch (err) {
    throw usageError(`${place} cannot be read: ${whyUnreadable(err as NodeJS.ErrnoException)}`)
  }
  return objectIn(text, place)
}

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is no folder',
  EACCES: 'you may not read it',
}

const whyUnreadable = ({ code = '', message }: NodeJS.ErrnoException): string => UNREADABLE[code] ?? message

/** Matches a text that begins as JSON does; a file of such a name is given as `./5`. */
const JSON_TEXT = /^\s*(?:[{["]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)/

/** Reads the input of a run, which is given as JSON or as the name of a file that holds it. */
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
  throw usageError(`${place} must hold a JSON object`)
}

/** Returns the graph of a file, which may also be the request of a run with its graph as `plan`. */
export function graphIn(file: string, content: JsonObject): JsonObject {
  const graph = 'stages' in content ? content : content['plan']
  if (typeof graph === 'object' && graph !== null && !Array.isArray(graph)) return graph as JsonObject
  throw usageError(`${file} is no graph: it needs "stages" and "edges" (docs/cohorts.md)`)
}

/** Returns the request of a run: the content of a file, or a graph with the input that is given beside it. */
export function runIn(file: string, content: JsonObject, input: JsonObject | undefined): JsonObject {
  if ('stages' in content) return { plan: content, input: input ?? {} }
  if (!('plan' in content) && !('plan_id' in content))
    throw usageError(
      `${file} is no run: it needs "stages" and "edges", or "plan" or "plan_id" beside "input"`,
    )
  return { input: {}, ...content, ...(input && { input }) }
}
