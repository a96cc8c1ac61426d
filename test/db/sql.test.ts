import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'

const SQL = /\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto)\(|\bsql(?:<[^>]*>)?`/

/** Tables whose rows may hold megabytes of user text. */
const WIDE = new Set(['task', 'training_run', 'model_version', 'endpoint', 'cohort', 'cohort_stage'])
const WHOLE =
  /(?:selectFrom|insertInto|updateTable|deleteFrom)\('(\w+)'\)|(?:selectAll|returningAll)\((?:'(\w+)')?\)/g

/** Returns the wide tables from which the statements of a file read whole rows. */
function wideTables(source: string): string[] {
  let table = ''
  return [...source.matchAll(WHOLE)].flatMap(([, from, named]) => {
    if (from !== undefined) table = from
    const whole = from === undefined ? (named ?? table) : ''
    return WIDE.has(whole) ? [whole] : []
  })
}

describe('SQL', () => {
  it('reads whole rows of wide tables only to show or copy all their text', () => {
    const files = globSync('db/repositories/**/*.ts').toSorted()
    const found = files.flatMap((file) => {
      const tables = wideTables(readFileSync(file, 'utf8'))
      return tables.length > 0 ? [[file, ...tables]] : []
    })

    assert.deepEqual(found, [
      // An endpoint's own page, its changes, its reviews, and a newly created endpoint.
      ['db/repositories/endpoints/endpoints.ts', ...Array.from({ length: 5 }, () => 'endpoint')],
      ['db/repositories/endpoints/lists.ts', 'endpoint'],
      // A merged model copies the listing of its source.
      ['db/repositories/training/merges.ts', 'model_version'],
    ])
  })

  it('names the statements that read whole rows', () => {
    assert.deepEqual(wideTables("db.selectFrom('task').selectAll().forUpdate()"), ['task'])
    assert.deepEqual(
      wideTables("a.selectFrom('lease').selectAll('task'), b.updateTable('node').returningAll()"),
      ['task'],
    )
    assert.deepEqual(wideTables("a.selectFrom('task').select(FACTS), b.selectFrom('lease').selectAll()"), [])
  })

  it('is found only under db/, so that every statement on a table is in one folder', () => {
    const sources = globSync(
      '{api,activities,cli,domain,embedded,node-runtime,platform,schemas,scripts,workers,workflows}/**/*.ts',
    )

    assert.deepEqual(
      sources.filter((file) => SQL.test(readFileSync(file, 'utf8'))),
      [],
    )
  })
})
