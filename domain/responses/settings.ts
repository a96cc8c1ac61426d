import { invalid } from '../errors.ts'

type Loc = readonly (string | number)[]
type Fields = Readonly<Record<string, unknown>>

/** Converts a Responses API tool to a chat tool. In the Responses API, the function's fields are next to `type`. */
export function toolOf({ type, name, description, parameters, strict }: Fields, loc: Loc): object {
  if (type !== 'function')
    throw invalid([...loc, 'type'], 'must be function: this platform has no built-in tools')
  if (typeof name !== 'string' || name === '')
    throw invalid([...loc, 'name'], 'must be the name of a function')
  return {
    type,
    function: {
      name,
      ...present({ description, parameters, strict }),
    },
  }
}

const CHOICES = new Set<unknown>(['none', 'auto', 'required'])

/** Returns the chat's `tool_choice`. */
export function toolChoiceOf(choice: unknown, loc: Loc): unknown {
  if (choice === undefined || choice === null || CHOICES.has(choice)) return choice
  const { type, name } = (typeof choice === 'object' ? choice : {}) as Fields
  if (type === 'function' && typeof name === 'string') return { type, function: { name } }
  throw invalid(loc, 'must be none, auto, required, or {"type": "function", "name": ...}')
}

/** Returns the chat's `response_format`. */
export function formatOf(format: Fields | null | undefined, loc: Loc): object | undefined {
  if (!format) return undefined
  const { type, name, description, schema, strict } = format
  switch (type) {
    case 'text':
      return undefined
    case 'json_object':
      return { type }
    case 'json_schema':
      if (typeof schema !== 'object' || schema === null)
        throw invalid([...loc, 'schema'], 'must be a JSON Schema')
      return { type, json_schema: { name: name ?? 'answer', schema, ...present({ description, strict }) } }
    default:
      throw invalid([...loc, 'type'], 'must be text, json_object or json_schema')
  }
}

const present = (fields: Fields): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null))
