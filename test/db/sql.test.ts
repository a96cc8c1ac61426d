import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'

const SQL = /\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto)\(|\bsql(?:<[^>]*>)?`/

describe('SQL', () => {
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
