const LONGEST = 2_000

/** Turns the error response of a model server into one sentence for the owner of the task. */
export function modelFault(status: number, text: string): string {
  const said = messageIn(text) ?? text.trim()
  return (said === '' ? `the model answered ${status} without a reason` : said).slice(0, LONGEST)
}

/**
 * Returns the field of the request that the error names, in the format of OpenAI's errors or, from servers of this
 * platform, as a JSON pointer.
 */
export function faultField(text: string): string | undefined {
  const { param, path } = errorIn(text) ?? {}
  if (typeof param === 'string') return param.slice(0, LONGEST)
  return typeof path === 'string' && path.startsWith('/')
    ? path.slice(1, LONGEST).replaceAll('/', '.')
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
