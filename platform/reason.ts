import { ConfigError } from './config.ts'

interface Fault {
  message?: string
  /** The text of an error of gRPC; those of the API have an object there. */
  details?: unknown
  code?: unknown
  errors?: readonly unknown[]
}

/**
 * Returns the message of an error in one line. For a name with several addresses, the messages are
 * in the aggregated errors.
 */
export function reasonOf(err: unknown): string {
  const { message, details, code, errors = [] } = err as Fault
  const text =
    (typeof details === 'string' && details) ||
    message ||
    (errors.length > 0 ? reasonOf(errors[0]) : String(code ?? err))
  return text.split('\n')[0] ?? text
}

/** Makes the error for a setting whose system cannot be reached, or refuses the setting's value. */
export const unusable = (setting: string, cause: unknown): ConfigError =>
  new ConfigError(`${setting} cannot be used: ${reasonOf(cause)}.`, { cause })
