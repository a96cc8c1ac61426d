import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'

const SQL = /\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto)\(|\bsql(?:<[^>]*>)?`/

/** Tables whose rows hold texts of users that may have megabytes. */
const WIDE = new Set(['task', 'training_run', 'model_version', 'endpoint', 'cohort', 'cohort_stage'])
const WHOLE =
  /(?:selectFrom|insertInto|updateTable|deleteFrom)\('(\w+)'\)|(?:selectAll|returningAll)\((?:'(\w+)')?\)/g

/** Returns the wide tables of which the statements of a file read whole rows. */
function wideTables(source: string): string[] {
  let table = ''
  return [...source.matchAll(WHOLE)].flatMap(([, from, named]) => {
    if (from !== undefined) table = from
    const whole = from === undefined ? (named ?? table) : ''
    return WIDE.has(whole) ? [whole] : []
  })
}

describe('SQL', () => {
  it('reads whole rows of wide tables only for what shows or copies all their texts', () => {
    const files = globSync('db/repositories/**/*.ts').toSorted()
    const found = files.flatMap((file) => {
      const tables = wideTables(readFileSync(file, 'utf8'))
      return tables.length > 0 ? [[file, ...tables]] : []
    })

    assert.deepEqual(found, [
      // An endpoint's own page, its changes and its reviews, and an endpoint just created.
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

  it('stands under db/ only, so that every statement on a table is found in one folder', () => {
    const sources = globSync(
      '{api,activities,cli,domain,embedded,node-runtime,platform,schemas,scripts,workers,workflows}/**/*.ts',
    )

    assert.deepEqual(
      sources.filter((file) => SQL.test(readFileSync(file, 'utf8'))),
      [],
    )
  })
})
