import { hash } from 'node:crypto'
import pg from 'pg'

const names = new Map<string, string>()

/** The same few statements again and again: their names, so that a connection parses and plans each once. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (!name) names.set(text, (name = hash('sha1', text, 'hex')))
  return name
}

/**
 * A client for connections that run few, large statements: each is prepared under a name (a third off the time of a small
 * group of the journal, measured). Not for queries that are put together freely: every text stays prepared.
 */
export class PreparingClient extends pg.Client {
  // pg's overloads for callbacks, cursors and the like are of no use here, and this is called by kysely alone.
  override query = ((text: unknown, values?: unknown[]) => {
    const query = pg.Client.prototype.query.bind(this) as (...args: unknown[]) => unknown
    if (typeof text !== 'string' || !values?.length) return query(text, values)
    return query({ name: nameOf(text), text, values })
  }) as pg.Client['query']
}
