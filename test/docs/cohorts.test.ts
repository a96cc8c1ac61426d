import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { faultsOf, graphOf } from '../../domain/cohorts/graph.ts'
import { issuesOf } from '../../domain/cohorts/request-issues.ts'
import { PlanRequest } from '../../schemas/cohorts/plan.ts'
import { blocksOf } from '../support/builders/cohorts/cohorts-page.ts'

const FILES = globSync('docs/examples/cohorts/*.json').toSorted()
const read = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as PlanRequest
/** The part of the 32-column table that the page omits. */
const LEFT_OUT = Array.from({ length: 29 }, (_, i) => `"x${i + 2}": 0`).join()

describe('graphs in docs/cohorts.md', () => {
  it('equal the example files that its commands name', () => {
    const shown = blocksOf('json').map(
      (text) => JSON.parse(text.replace('"...": 0', LEFT_OUT)) as PlanRequest,
    )
    const commands = blocksOf('sh').join('')

    assert.equal(FILES.length, 4)
    const byName = (a: PlanRequest, b: PlanRequest) => (a.name ?? '').localeCompare(b.name ?? '')
    assert.deepEqual(shown.toSorted(byName), FILES.map(read).toSorted(byName))
    for (const file of FILES) assert.ok(commands.includes(`npx hearth cohorts run ${file}`), file)
  })

  for (const file of FILES) {
    it(`are well-formed: ${file}`, () => {
      const request = read(file)
      const check = new Ajv2020({ strict: false, validateFormats: false }).compile(PlanRequest)

      assert.ok(check(request), JSON.stringify(check.errors))
      assert.deepEqual(issuesOf(request), [])
      assert.deepEqual(faultsOf(graphOf(request)), [])
    })
  }
})

describe('commands in the documentation', () => {
  const PAGES = ['README.md', ...globSync('docs/*.md')]
  const commands = PAGES.flatMap((page) => blocksOf('sh', page)).join('')

  it('never import two models under the same name', () => {
    const names = [...commands.matchAll(/ --name ([a-z][\w-]*) --path/g)].map(([, name]) => name)

    assert.ok(names.length > 2)
    assert.deepEqual(names, [...new Set(names)])
  })

  it('use HEARTH_DATA_DIR for the data directory', () => {
    assert.doesNotMatch(commands.replaceAll('${HEARTH_DATA_DIR:-.hearth}', ''), /\.hearth\b/)
  })

  it('call only functions that docs/cohorts.md lists', () => {
    const script = readFileSync('docs/examples/cohorts/functions.sh', 'utf8')
    const defined = [...script.matchAll(/^(\w+)\(\) \{/gm)].map(([, name]) => name)
    const page = readFileSync('docs/cohorts.md', 'utf8')

    assert.ok(defined.length > 5)
    for (const name of defined) assert.match(page, new RegExp(`^\\|.*\`${name} [A-Z]`, 'm'))
  })
})
