import { type GrammarSchema, type GrammarSchemaOptions, grammarSchema } from './grammar-schema.ts'
import { UnusableError } from './unusable-error.ts'

export interface ModelFunction {
  description: string
  /** Absent for a function without arguments. */
  params?: GrammarSchema
  /** True if the arguments must match `params`; otherwise the request is rejected. */
  isStrict: boolean
}

/** The schema for arguments that no grammar can enforce, if the request isn't strict. */
export const ANY_ARGUMENTS: GrammarSchema = { type: 'object', additionalProperties: true }

/** The required form of one response. */
export interface Output {
  /** The functions that the model may call, by name. */
  functions?: Record<string, ModelFunction>
  /** True if the response must consist of calls. */
  isForced: boolean
  isOneCall: boolean
  /**
   * Set if the text must be JSON: with this schema, or any object. With `functions`, the model may call one instead.
   */
  json?: GrammarSchema | 'object'
}

/** The fields of a request that determine the form of the response. */
export interface OutputBody {
  tools?: unknown
  tool_choice?: unknown
  parallel_tool_calls?: unknown
  response_format?: unknown
}

interface NamedFunction extends ModelFunction {
  name: string
}

const NAME = /^[^\s"\\]{1,128}$/
const CHOICE = 'tool_choice must be none, auto, required, or name a function'

/** Validates `tools`, `tool_choice`, `parallel_tool_calls` and `response_format`. */
export function readOutput(body: OutputBody): Output {
  const { tools, tool_choice: choice } = body
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) {
    throw new UnusableError('tools must be a list', 'tools')
  }
  const all = (tools ?? []).map(functionOf)
  const named = nameOf(choice)
  if (all.length === 0 && (named !== undefined || choice === 'required')) {
    throw new UnusableError('tool_choice requires a call, but tools lists no function', 'tool_choice')
  }
  const json = jsonOf(body.response_format)
  if (all.length === 0 || choice === 'none') {
    return { isForced: false, isOneCall: false, ...(json !== undefined && { json }) }
  }
  const chosen = named === undefined ? all : all.filter(({ name }) => name === named).slice(0, 1)
  if (chosen.length === 0) {
    throw new UnusableError(`tool_choice names ${named}, which is not in tools`, 'tool_choice')
  }
  const isForced = named !== undefined || choice === 'required'
  return {
    functions: Object.fromEntries(chosen.map(({ name, ...one }) => [name, one])),
    isForced,
    isOneCall: named !== undefined || body.parallel_tool_calls === false,
    ...(json !== undefined && !isForced && { json }),
  }
}

function nameOf(choice: unknown): string | undefined {
  if (choice === undefined || choice === null) return undefined
  if (typeof choice === 'string') {
    if (!['none', 'auto', 'required'].includes(choice)) throw new UnusableError(CHOICE, 'tool_choice')
    return undefined
  }
  const { type = 'function', function: one } = choice as { type?: unknown; function?: { name?: unknown } }
  if (type !== 'function' || typeof one?.name !== 'string') throw new UnusableError(CHOICE, 'tool_choice')
  return one.name
}

function functionOf(tool: unknown, index: number): NamedFunction {
  const at = `tools[${index}]`
  const { type = 'function', function: one } = (tool ?? {}) as {
    type?: unknown
    function?: { name?: unknown; description?: unknown; parameters?: unknown; strict?: unknown }
  }
  if (type !== 'function') throw new UnusableError(`${at}.type must be function`, `${at}.type`)
  const name = one?.name
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new UnusableError(`${at}.function.name must be a name without spaces`, `${at}.function.name`)
  }
  const field = `${at}.function.parameters`
  const parameters = one?.parameters ?? undefined
  if (parameters !== undefined && (typeof parameters !== 'object' || Array.isArray(parameters))) {
    throw new UnusableError(`${field} must be a JSON schema of an object`, field)
  }
  const isStrict = one?.strict === true
  return {
    name,
    description: typeof one?.description === 'string' ? one.description : '',
    // Arguments are always an object, whether the schema says so or not.
    ...(parameters && { params: paramsOf({ ...parameters, type: 'object' }, { field, isStrict }) }),
    isStrict,
  }
}

/**
 * Translates parameters. One odd schema among an agent's many tools must not break its chats, unless that tool is
 * strict.
 */
function paramsOf(parameters: object, options: GrammarSchemaOptions): GrammarSchema {
  try {
    return grammarSchema(parameters, options)
  } catch (err) {
    if (options.isStrict || !(err instanceof UnusableError)) throw err
    return ANY_ARGUMENTS
  }
}

function jsonOf(format: unknown): Output['json'] {
  if (format === undefined || format === null) return undefined
  const { type, json_schema: inner } = format as {
    type?: unknown
    json_schema?: { schema?: unknown; strict?: unknown }
  }
  if (type === 'text') return undefined
  if (type === 'json_object') return 'object'
  if (type !== 'json_schema') {
    const field = 'response_format.type'
    throw new UnusableError(`${field} must be text, json_object or json_schema`, field)
  }
  const field = 'response_format.json_schema.schema'
  return grammarSchema(inner?.schema, { field, isStrict: inner?.strict === true })
}
