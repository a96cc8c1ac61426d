import { isUuid } from '../domain/uuid.ts'
import { usageError } from './cli-error.ts'
import type { Context } from './context.ts'

/** Validates the id in an argument, or in the named option. */
export function id(text: string, option?: string): string {
  if (isUuid(text)) return text
  const named = option === undefined ? '' : `${option}: `
  throw usageError(`${named}${JSON.stringify(text)} is not an id: ids are UUIDs; the list commands show them`)
}

/** Returns the given account, or the account of the embedded platform. */
export function account(
  { defaultAccount }: Pick<Context, 'defaultAccount'>,
  given: string | undefined,
): string {
  const chosen = given ?? defaultAccount
  if (chosen) return id(chosen)
  throw usageError('An account is required; `hearth accounts list` shows them.')
}
