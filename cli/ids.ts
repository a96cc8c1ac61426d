import { isUuid } from '../domain/uuid.ts'
import { usageError } from './cli-error.ts'
import type { Context } from './context.ts'

/** Checks an id, that of an argument or of the option that is named. */
export function id(text: string, option?: string): string {
  if (isUuid(text)) return text
  const named = option === undefined ? '' : `${option}: `
  throw usageError(`${named}${JSON.stringify(text)} is no id: ids are UUIDs, which the list commands show`)
}

/** Returns the named account, or that of the embedded platform. */
export function account(
  { defaultAccount }: Pick<Context, 'defaultAccount'>,
  given: string | undefined,
): string {
  const chosen = given ?? defaultAccount
  if (chosen) return id(chosen)
  throw usageError('Name an account: `hearth accounts list` shows them.')
}
