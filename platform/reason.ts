import { ConfigError } from './config.ts'

interface Fault {
  message?: string
  details?: string
  code?: unknown
  errors?: readonly unknown[]
}

/** What an error says, in one line. Where a name has several addresses, the words are in the errors gathered. */
export function reasonOf(err: unknown): string {
  const { message, details, code, errors = [] } = err as Fault
  const text = details || message || (errors.length > 0 ? reasonOf(errors[0]) : String(code ?? err))
  return text.split('\n')[0] ?? text
}

/** Names the setting whose system cannot be reached, or does not take what the setting says. */
export const unusable = (setting: string, cause: unknown): ConfigError =>
  new ConfigError(`${setting} cannot be used: ${reasonOf(cause)}.`, { cause })
