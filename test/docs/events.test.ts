import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { DECLARED, eventsDocument } from '../../scripts/events-document.ts'

const SOURCES =
  '{activities,api,cli,db,domain,embedded,node-runtime,platform,schemas,workers,workflows}/**/*.ts'
const NAMES = DECLARED.flatMap(({ events }) => Object.keys(events))

describe('log events', () => {
  it('are documented in docs/events.md as they are declared', () => {
    assert.equal(readFileSync('docs/events.md', 'utf8'), eventsDocument(), 'run: npm run events:write')
  })

  it('are documented for every file that declares them', () => {
    const declaring = globSync(SOURCES).filter((file) => /= defineEvents\(/.test(readFileSync(file, 'utf8')))

    assert.deepEqual(declaring.toSorted(), DECLARED.map(({ file }) => file).toSorted())
  })

  it('have unique names that consist of a noun and a participle', () => {
    assert.equal(new Set(NAMES).size, NAMES.length)
    assert.deepEqual(
      NAMES.filter((name) => !/^[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*$/.test(name)),
      [],
    )
  })

  it('are all emitted somewhere', () => {
    const declaring = new Set(DECLARED.map(({ file }) => file))
    const sources = globSync(SOURCES).filter((file) => !declaring.has(file))
    const text = sources.map((file) => readFileSync(file, 'utf8')).join('\n')

    assert.deepEqual(
      NAMES.filter((name) => !text.includes(`'${name}'`)),
      [],
    )
  })
})
