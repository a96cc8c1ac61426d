import type { CallToolResult } from '@modelcontextprotocol/server'
import type { Issue } from '../../domain/errors.ts'
import type { Logger } from '../../platform/log.ts'
import { toApiError } from '../http/errors.ts'
import { logCause } from '../http/log-cause.ts'
import type { JsonObject } from './tool.ts'

interface ResultOptions {
  /** Replaces the JSON text for agents that only read text. */
  readonly text?: string
  /** True if the work ran and failed. */
  readonly isError?: boolean
}

/** Returns a tool result: structured, and as text for clients that only read text. */
export const structured = (body: JsonObject, { text, isError }: ResultOptions = {}): CallToolResult => ({
  content: [{ type: 'text', text: text ?? JSON.stringify(body) }],
  structuredContent: body,
  ...(isError && { isError }),
})

interface Wording {
  /** Argument names that differ from those of the operation behind the tool. */
  readonly names?: Readonly<Record<string, string>>
  /** The member of the operation's body that contains the arguments, if they aren't the body itself. */
  readonly within?: string
  /** The arguments of the call. */
  readonly args?: JsonObject
}

/** The tools that list the possible values of an argument. */
const LISTED_BY: Readonly<Record<string, string>> = {
  endpoint_id: 'list_endpoints',
  run_id: 'list_training_runs',
  dataset_id: 'list_datasets',
  model_config_id: 'list_trainable_models',
}

/** Converts anything thrown by a tool to a result that the agent reads. */
export function failed(err: unknown, log: Logger, wording: Wording = {}): CallToolResult {
  const error = toApiError(err)
  logCause(log, error)
  const { code, message, details, headers } = error
  const issues = (details.issues ?? []) as readonly Issue[]
  const what = issues.length > 0 ? `Invalid arguments: ${formatIssues(issues, wording)}` : sentence(message)
  const wait = headers?.['retry-after']
  const list = code === 'not_found' ? listFor(wording.args) : undefined
  const text = [what, wait && `Try again in ${wait} s.`, list && `${list} shows the available ones.`]
    .filter(Boolean)
    .join(' ')
  const shown =
    issues.length > 0
      ? { ...details, issues: issues.map((issue) => ({ ...issue, loc: locOf(issue.loc, wording) })) }
      : details
  return {
    content: [{ type: 'text', text }],
    isError: true,
    _meta: { 'hearth/error': { code, details: shown } },
  }
}

/** Returns the tool that lists the kind of object that a call didn't find. */
function listFor(args: JsonObject = {}): string | undefined {
  const named = Object.keys(args).find((name) => Object.hasOwn(LISTED_BY, name))
  return named && LISTED_BY[named]
}

const MAX_NAMED = 10

function formatIssues(issues: readonly Issue[], wording: Wording): string {
  const named = issues.slice(0, MAX_NAMED).map(({ loc, msg }) => `${placeOf(loc, wording)}: ${msg}`)
  const more = issues.length - named.length
  return `${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}.`
}

/** The parts of an HTTP request, which tool calls don't have. */
const PARTS: ReadonlySet<unknown> = new Set(['body', 'query', 'path', 'header'])

/** Returns an error's path within the arguments; empty for the arguments as a whole. */
function locOf(loc: Issue['loc'], { names = {}, within }: Wording): Issue['loc'] {
  const inBody = PARTS.has(loc[0]) ? loc.slice(1) : loc
  const [first, ...rest] = within !== undefined && inBody[0] === within ? inBody.slice(1) : inBody
  return first === undefined ? [] : [names[first] ?? first, ...rest]
}

/** Returns an error's location within the arguments as text, such as `input.instances[0]`. */
function placeOf(loc: Issue['loc'], wording: Wording): string {
  const [first, ...rest] = locOf(loc, wording)
  if (first === undefined) return 'arguments'
  return rest.reduce<string>(
    (path, part) => (typeof part === 'number' ? `${path}[${part}]` : `${path}.${part}`),
    String(first),
  )
}

const sentence = (message: string): string => {
  const text = message.charAt(0).toUpperCase() + message.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}
