import { reasonOf } from '../../platform/reason.ts'
import { CliError, usageError } from '../cli-error.ts'

/** Errors of this project whose messages are for operators; we don't import their classes, to start fast. */
const FOR_OPERATORS: ReadonlySet<string> = new Set(['BackupError', 'SchemaTooNewError', 'StartError'])

/** Runs work and converts its expected errors (the database, the disk, wrong use) to errors of one line. */
export async function inOneLine<T>(subject: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (err) {
    const { name, message, code } = err as Error & { code?: unknown }
    if (err instanceof CliError || name === 'ConfigError') throw err
    if (name === 'UsageError') throw usageError(message)
    if (FOR_OPERATORS.has(name)) throw new CliError(message)
    // Errors of the system and of PostgreSQL have a code, except for a lost connection; any other is a bug.
    if (typeof code === 'string') throw new CliError(`${subject} failed: ${reasonOf(err)} (${code})`)
    if (message.startsWith('Connection terminated'))
      throw new CliError(`${subject} failed: the connection to PostgreSQL was lost.`)
    throw err
  }
}
