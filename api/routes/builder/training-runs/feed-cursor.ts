import { cursorScope } from '../../../../db/keyset.ts'
import { invalid } from '../../../../domain/errors.ts'

/** Names a place in what is told of a run. */
export const encodeFeedCursor = (runId: string, place: number): string =>
  Buffer.from(`${cursorScope('feed', runId)}.${place}`).toString('base64url')

/** Returns the place; throws a 422 for a cursor that this run has not given out. */
export function decodeFeedCursor(runId: string, cursor: string, loc: readonly [string, string]): number {
  const [scope, text, ...rest] = Buffer.from(cursor, 'base64url').toString().split('.')
  const place = Number(text)
  const isPlace = /^\d+$/.test(text ?? '') && Number.isSafeInteger(place)
  if (scope === cursorScope('feed', runId) && isPlace && rest.length === 0) return place
  throw invalid([...loc], 'is not a cursor that the stream or the log of this run gave out', 'cursor')
}
