import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { HUB_TASKS } from '../../domain/hub/compatibility.ts'
import { loadCatalog } from '../../platform/catalog.ts'
import { SERVED } from './routes.ts'

const ROOT = new URL('../../', import.meta.url)
const [gaps = '', unbuilt = ''] = readFileSync(new URL('docs/gaps.md', ROOT), 'utf8').split(
  '## Not built yet',
)

const isRule = (line = ''): boolean => line.startsWith('| ---')

/** The cells of every table row, without header rows. */
const rowsOf = (text: string): string[][] =>
  text
    .split('\n')
    .filter((line, i, lines) => line.startsWith('| ') && !isRule(line) && !isRule(lines[i + 1]))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )

describe('docs/gaps.md', () => {
  it('lists every contract gap once, with a decision and existing tests', () => {
    const rows = rowsOf(gaps)

    for (const row of rows) {
      const [gap = '', decision = '', tests = ''] = row
      assert.ok(row.length === 3 && gap && decision, row.join(' | '))
      const files = [...tests.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file)
      assert.ok(files.length > 0, gap)
      for (const file of files) assert.ok(existsSync(new URL(file, ROOT)), `${gap}: ${file}`)
    }
    assert.equal(new Set(rows.map(([gap]) => gap)).size, rows.length)
  })

  it('cites no documents outside the repository', () => {
    assert.doesNotMatch(gaps + unbuilt, /\b(?:design|contract) (?:section |part )?\d/i)
  })

  it('lists only unserved routes and tasks as not built', () => {
    const served = new Set(SERVED.map(({ path }) => path))
    const tasks = loadCatalog().profiles.flatMap(({ task_types }) => task_types)
    const named = rowsOf(unbuilt).flatMap(([part = '']) => [...part.matchAll(/`([^`]+)`/g)])

    assert.ok(named.length > 0)
    for (const [, name = ''] of named) assert.ok(!served.has(name) && !tasks.includes(name), name)
    const unserved = Object.entries(HUB_TASKS).filter(
      ([, task]) => !task.served.some((type) => tasks.includes(type)),
    )
    for (const [task] of unserved) assert.ok(unbuilt.includes(`\`${task}\``), task)
  })
})
