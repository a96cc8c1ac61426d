/**
 * Returns the SQLSTATE of a PostgreSQL error (appendix A of its manual): five characters, of which the first two are
 * the class. Returns undefined for any other error.
 */
function sqlStateOf(err: unknown): string | undefined {
  const { code } = (typeof err === 'object' && err !== null ? err : {}) as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** Returns whether PostgreSQL rejected the data itself: NUL in text, a number out of range. */
export const isDataException = (err: unknown): boolean => isOfClass(err, '22')

/** Returns whether the rows are the cause: bad data, or a violated constraint. */
export const isBadRow = (err: unknown): boolean => isOfClass(err, '22', '23')

/** Returns whether a row references a row that does not exist. */
export const isMissingReference = (err: unknown): boolean => sqlStateOf(err) === '23503'

/**
 * Returns whether a retry would fail again: bad data, a violated constraint, an invalid statement, a limit of
 * PostgreSQL.
 */
export const isPermanent = (err: unknown): boolean => isOfClass(err, '22', '23', '42', '54')

const SERIALIZATION_FAILURES = new Set(['40P01', '40001'])

/** Returns whether PostgreSQL aborted a transaction because of a concurrent one: deadlock or serialization failure. */
export const isSerializationFailure = (err: unknown): boolean =>
  SERIALIZATION_FAILURES.has(sqlStateOf(err) ?? '')

/**
 * Returns whether PostgreSQL's disk is full: `disk_full`, or an `io_error` whose message says so, as some file systems
 * report for a full tablespace.
 */
export const isDatabaseFull = (err: unknown): boolean => {
  const state = sqlStateOf(err)
  if (state === '53100') return true
  return (
    state === '58030' && err instanceof Error && /no space left on device|quota exceeded/i.test(err.message)
  )
}

/** Returns whether PostgreSQL ran out of memory for a statement. */
export const isDatabaseOutOfMemory = (err: unknown): boolean => sqlStateOf(err) === '53200'

/** Shutting down, starting up, out of connections, serialization failure, deadlock, lock timeout. */
const TRANSIENT = new Set(['57P01', '57P02', '57P03', '53300', '40001', '40P01', '55P03'])

/** Returns whether a retry may succeed soon, because the connection, the server or another transaction caused the error. */
export const isTransient = (err: unknown): boolean =>
  TRANSIENT.has(sqlStateOf(err) ?? '') || isOfClass(err, '08')

const isOfClass = (err: unknown, ...classes: readonly string[]): boolean =>
  classes.includes(sqlStateOf(err)?.slice(0, 2) ?? '')
