import { hash } from 'node:crypto'
import pg from 'pg'

/** The use on which a connection prepares a statement; 5 is also pgjdbc's default. */
const MIN_USES = 5
/** Each prepared statement takes about 20 kB of the server's memory. */
const MAX_PREPARED = 100
/**
 * The number of statements whose uses are counted. There is no limit on distinct dynamic queries, so counting restarts
 * here.
 */
const MAX_COUNTED = 1_000

/** Returns a statement's name. A connection parses a named statement only once. */
export const nameOf = (text: string): string => hash('sha1', text, 'hex')

/**
 * Returns false for `*`, because a prepared statement fails once a migration adds a result column. Multiplication also
 * counts as `*`.
 */
const hasFixedColumns = (text: string): boolean => !text.replaceAll('(*)', '').includes('*')

/** A connection that prepares the statements that it runs often, so that they are not parsed each time. */
export class PreparingClient extends pg.Client {
  readonly #uses = new Map<string, number>()
  readonly #names = new Map<string, string>()

  // All overloads of `pg.Client.query` pass through here.
  override query(...args: unknown[]): never {
    const [text, values, ...rest] = args
    const name =
      typeof text === 'string' && Array.isArray(values) && values.length > 0 ? this.#nameFor(text) : undefined
    const given = name === undefined ? args : [{ name, text, values }, ...rest]
    return super.query(...(given as [string])) as never
  }

  /** Returns the name of a prepared statement; undefined if the statement is not used often enough to prepare it. */
  #nameFor(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= MAX_PREPARED) return known
    const uses = this.#uses.get(text) ?? 0
    if (uses === 0 && !hasFixedColumns(text)) return undefined
    if (this.#uses.size >= MAX_COUNTED) this.#uses.clear()
    this.#uses.set(text, uses + 1)
    if (uses + 1 < MIN_USES) return undefined
    const name = nameOf(text)
    this.#names.set(text, name)
    this.#uses.delete(text)
    return name
  }
}
