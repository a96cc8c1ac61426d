const LONGEST = 2_000

/** What a model server that did not answer 200 says, as one sentence for the owner of the task. */
export function modelFault(status: number, text: string): string {
  const said = messageIn(text) ?? text.trim()
  return (said === '' ? `the model answered ${status} without a reason` : said).slice(0, LONGEST)
}

/** The field of the request that a model server complains of, as OpenAI's errors name it. */
export function faultField(text: string): string | undefined {
  const field = errorIn(text)?.param
  return typeof field === 'string' ? field.slice(0, LONGEST) : undefined
}

/** The same input would be refused again, wherever the model runs. */
export const isInputRefused = (status: number): boolean => status >= 400 && status < 500

function messageIn(text: string): string | undefined {
  const message = errorIn(text)?.message
  return typeof message === 'string' ? message : undefined
}

function errorIn(text: string): { message?: unknown; param?: unknown } | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown; param?: unknown } | string | null }
    return typeof error === 'object' ? (error ?? undefined) : { message: error }
  } catch {
    return undefined
  }
}
