const MAX_LENGTH = 2_000
const MAX_LINE = 300
/** Control characters, and those that change the direction of text. */
const CONTROL = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

/** Turns the error response of a model server into one sentence for the owner of the task. */
export function modelFault(status: number, text: string): string {
  const said = messageIn(text) ?? text.trim()
  return (said === '' ? `the model answered ${status} without a reason` : said).slice(0, MAX_LENGTH)
}

/**
 * Turns the error response of a model server into one line for others than the caller of that request: without control
 * characters, and without the pages and traces of web frameworks, which belong into the log of the node.
 */
export function faultInOneLine(status: number, text: string): string {
  const said = messageIn(text) ?? (/^\s*<|^Traceback |\n\s*(?:File "|at )/.test(text) ? '' : text)
  const line = said.replaceAll(CONTROL, ' ').replaceAll(/\s+/g, ' ').trim()
  return line === ''
    ? `answered ${status} without a reason`
    : `answered ${status}: ${line.slice(0, MAX_LINE)}`
}

/**
 * Returns the field of the request that the error names, in the format of OpenAI's errors or, from servers of this
 * platform, as a JSON pointer.
 */
export function faultField(text: string): string | undefined {
  const { param, path } = errorIn(text) ?? {}
  if (typeof param === 'string') return param.slice(0, MAX_LENGTH)
  return typeof path === 'string' && path.startsWith('/')
    ? path.slice(1, MAX_LENGTH).replaceAll('/', '.')
    : undefined
}

/** Says that a model failed without quoting it, because the request held an account's memory and so may the answer. */
export const faultWithMemory = (status?: number): string =>
  `the model ${status === undefined ? 'failed' : `answered ${status}`}; its own words are not shown, because the request carried the memory of the account, which they may quote`

/** A 4xx means that any node would refuse the same input again. */
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
