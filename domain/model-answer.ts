const LONGEST = 2_000

/** What a model server that did not answer 200 says, as one sentence for the owner of the task. */
export function modelFault(status: number, text: string): string {
  const said = messageIn(text) ?? text.trim()
  return (said === '' ? `the model answered ${status} without a reason` : said).slice(0, LONGEST)
}

/** The same input would be refused again, wherever the model runs. */
export const isInputRefused = (status: number): boolean => status >= 400 && status < 500

function messageIn(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } | string }
    const message = typeof error === 'object' ? error?.message : error
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
