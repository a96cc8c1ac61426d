import { cursorScope } from '../../../../db/keyset.ts'
import { invalid } from '../../../../domain/errors.ts'

/** Encodes a position in a run's feed as a cursor. */
export const encodeFeedCursor = (runId: string, position: number): string =>
  Buffer.from(`${cursorScope('feed', runId)}.${position}`).toString('base64url')

/** Decodes a cursor; throws a 422 for a cursor that was not issued for this run. */
export function decodeFeedCursor(runId: string, cursor: string, loc: readonly [string, string]): number {
  const [scope, text, ...rest] = Buffer.from(cursor, 'base64url').toString().split('.')
  const position = Number(text)
  const isPlace = /^\d+$/.test(text ?? '') && Number.isSafeInteger(position)
  if (scope === cursorScope('feed', runId) && isPlace && rest.length === 0) return position
  throw invalid([...loc], 'is not a cursor from the stream or the log of this run', 'cursor')
}
