/**
 * The SQLSTATE of an error that PostgreSQL told (appendix A of its manual), five characters of which the first two are the
 * class; undefined for any other error.
 */
function sqlStateOf(err: unknown): string | undefined {
  const { code } = (typeof err === 'object' && err !== null ? err : {}) as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** Whether PostgreSQL refused the data itself: NUL in text, a number out of range. */
export const isDataException = (err: unknown): boolean => isOfClass(err, '22')

/** Whether the rows themselves are at fault: bad data, or a violated constraint. */
export const isBadRow = (err: unknown): boolean => isOfClass(err, '22', '23')

/** Whether trying the same again ends the same: bad data, a violated constraint, a wrong statement, a limit of PostgreSQL. */
export const isPermanent = (err: unknown): boolean => isOfClass(err, '22', '23', '42', '54')

/** Shutting down or starting up, out of connections, deadlock, serialisation failures, a lock that is kept for long. */
const TRANSIENT = new Set(['57P01', '57P02', '57P03', '53300', '40001', '40P01', '55P03'])

/** Whether the same may succeed in a moment: the connection, the server or another transaction was in the way. */
export const isTransient = (err: unknown): boolean =>
  TRANSIENT.has(sqlStateOf(err) ?? '') || isOfClass(err, '08')

const isOfClass = (err: unknown, ...classes: readonly string[]): boolean =>
  classes.includes(sqlStateOf(err)?.slice(0, 2) ?? '')
