import type { Changes } from '../schemas/audit-log.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Returns the fields of `after` that differ from `before`, compared as JSON. Undefined fields are left out. Without a
 * `before`, every old value is null.
 */
export function changesBetween(before: Fields | undefined, after: Fields): Changes {
  const changes: Changes = {}
  for (const [field, value] of Object.entries(after)) {
    const from = before?.[field] ?? null
    if (value !== undefined && JSON.stringify(from) !== JSON.stringify(value))
      changes[field] = { from, to: value }
  }
  return changes
}
