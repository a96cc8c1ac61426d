import { ConfigError } from './config.ts'

interface Fault {
  message?: string
  /** A string in gRPC errors; an object in API errors. */
  details?: unknown
  code?: unknown
  errors?: readonly unknown[]
}

/**
 * Returns the message of an error on one line. If a host name has several addresses, the messages are in the aggregated
 * errors.
 */
export function reasonOf(err: unknown): string {
  const { message, details, code, errors = [] } = err as Fault
  const text =
    (typeof details === 'string' && details) ||
    message ||
    (errors.length > 0 ? reasonOf(errors[0]) : String(code ?? err))
  return text.split('\n')[0] ?? text
}

/** Creates the error for a setting whose system cannot be reached or rejects the setting's value. */
export const unusable = (setting: string, cause: unknown): ConfigError =>
  new ConfigError(`${setting} cannot be used: ${reasonOf(cause)}.`, { cause })
