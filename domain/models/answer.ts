const MAX_LENGTH = 2_000
const MAX_LINE = 300
/** Control characters, and those that change the direction of text. */
const CONTROL = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

/** Turns a model server's error response into one sentence for the owner of the task. */
export function modelFault(status: number, text: string): string {
  const message = messageIn(text) ?? text.trim()
  return (message === '' ? `the model returned ${status} without a reason` : message).slice(0, MAX_LENGTH)
}

/**
 * Turns a model server's error response into one line for readers other than the caller. It drops control characters,
 * and the HTML pages and stack traces of web frameworks, which belong in the node's log.
 */
export function faultInOneLine(status: number, text: string): string {
  const message = messageIn(text) ?? (/^\s*<|^Traceback |\n\s*(?:File "|at )/.test(text) ? '' : text)
  const line = message.replaceAll(CONTROL, ' ').replaceAll(/\s+/g, ' ').trim()
  return line === ''
    ? `answered ${status} without a reason`
    : `answered ${status}: ${line.slice(0, MAX_LINE)}`
}

/**
 * Returns the request field that the error names, from OpenAI's error format or, for this platform's servers, a JSON
 * pointer.
 */
export function faultField(text: string): string | undefined {
  const { param, path } = errorIn(text) ?? {}
  if (typeof param === 'string') return param.slice(0, MAX_LENGTH)
  return typeof path === 'string' && path.startsWith('/')
    ? path.slice(1, MAX_LENGTH).replaceAll('/', '.')
    : undefined
}

/** Reports that a model failed without quoting it: the request held an account's memory, so the response may too. */
export const faultWithMemory = (status?: number): string =>
  `the model ${status === undefined ? 'failed' : `returned ${status}`}; its message is hidden because it may quote the account's memory, which was part of the request`

/** A 4xx means that any node would reject the same input. */
export const isInputRefused = (status: number): boolean => status >= 400 && status < 500

interface FaultBody {
  message?: unknown
  param?: unknown
  path?: unknown
}

function messageIn(text: string): string | undefined {
  const message = errorIn(text)?.message
  return typeof message === 'string' ? message : undefined
}

function errorIn(text: string): FaultBody | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: FaultBody | string | null }
    return typeof error === 'object' ? (error ?? undefined) : { message: error }
  } catch {
    return undefined
  }
}
