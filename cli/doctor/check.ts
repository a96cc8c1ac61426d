/** The result of one check. `wrong` means something doesn't work; `warning` means it may soon stop working. */
export interface Check {
  about: string
  state: 'ok' | 'warning' | 'wrong'
  message: string
  /** The remedy, unless the check passed. */
  todo?: string
}

export const ok = (about: string, message: string): Check => ({ about, state: 'ok', message })
export const warning = (about: string, message: string, todo: string): Check => ({
  about,
  state: 'warning',
  message,
  todo,
})
export const wrong = (about: string, message: string, todo: string): Check => ({
  about,
  state: 'wrong',
  message,
  todo,
})

const SIGNS: Readonly<Record<Check['state'], string>> = {
  ok: 'ok     ',
  warning: 'warning',
  wrong: 'WRONG  ',
}

/** Formats a check as one line. */
export const formatCheck = ({ about, state, message, todo }: Check): string =>
  `${SIGNS[state]}  ${about}: ${message.replace(/\.$/, '')}${todo === undefined ? '' : `. To do: ${todo}`}`
