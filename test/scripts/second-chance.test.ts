import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { runProgram } from '../../platform/processes/run-program.ts'
import { type Counts, type TestEnding, secondChance } from '../../scripts/mocha-run.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

const ONCE = `if (!fs.existsSync(seen)) { fs.writeFileSync(seen, ''); throw new Error('not yet') }`
const SPECS = {
  'steady.test.cjs': `it('passes', () => {}); it.skip('is skipped', () => {})`,
  'unsteady.test.cjs': `describe('one', () => { it('passes', () => {}); it('fails once', () => { ${ONCE} }) })`,
  'hook.test.cjs': `describe('two', () => { before('its start', () => { ${ONCE} }); it('comes after', () => {}) })`,
  'broken.test.cjs': `it('fails once', () => { ${ONCE} }); it('always fails', () => { throw new Error('no') })`,
  // Leaves a timer in the process, and a child that keeps the output stream open.
  'leaking.test.cjs': `it('leaves something behind', () => {
    setInterval(() => {}, 1_000)
    require('node:child_process').spawn('sleep', ['90'], { stdio: 'inherit' })
  })`,
  'dying.test.cjs': `it('dies', () => { if (fs.existsSync(seen)) process.exit(1); ${ONCE} })`,
}

interface RunReport {
  before: Counts
  after: Counts
  flaky: TestEnding[]
}

describe('npm test runner', () => {
  let report: RunReport

  /** Runs in a separate process, because it prints the output of failing tests. */
  before(async () => {
    using folder = temporaryFolder()
    const specs = Object.entries(SPECS).map(([name, body]) => {
      const file = join(folder.path, name)
      writeFileSync(file, `const fs = require('node:fs'); const seen = __filename + '.seen'; ${body}`)
      return file
    })
    const code = `
      import { countsOf, runSuite, secondChance } from './scripts/mocha-run.ts'
      const suite = (specs) => runSuite({ name: 'specs', specs, minutes: 1 }, { env: {} })
      const first = await suite(${JSON.stringify(specs)})
      const { endings, flaky } = await secondChance(first, (file) => suite([file]))
      console.log(JSON.stringify({ before: countsOf(first), after: countsOf(endings), flaky }))`
    const { stdout } = await runProgram(process.execPath, ['--input-type=module', '-e', code], {
      env: { ...process.env, HEARTH_TEST_LINGER_MS: '500' },
    })
    report = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as RunReport
  })

  it('counts every test, a failing hook, and a process that does not exit', () => {
    assert.deepEqual(report.before, { passed: 3, failed: 6, skipped: 1 })
  })

  it('replaces the results of a failing file with those of its second run', () => {
    // The broken file fails again, and the dying one leaves an incomplete run.
    assert.deepEqual(report.after, { passed: 6, failed: 2, skipped: 1 })
  })

  it('lists each failure that did not recur', () => {
    assert.deepEqual(
      report.flaky.map(({ file, title }) => `${basename(file)} ${title}`),
      [
        ' specs: the process exits after its last test',
        'broken.test.cjs fails once',
        'unsteady.test.cjs one fails once',
        'hook.test.cjs two "before all" hook: its start for "comes after"',
      ],
    )
  })

  it('lists the error of each failure that did not recur', () => {
    const [lingering, ...failed] = report.flaky.map(({ error }) => error)

    assert.equal(lingering, undefined)
    for (const error of failed) assert.match(error ?? '', /^Error: not yet\n +at .*\.test\.cjs:1:/)
  })

  it('does not rerun files when many of them fail', async () => {
    const first = Array.from({ length: 6 }, (_, n): TestEnding => {
      return { file: `${n}.test.ts`, title: 'it', outcome: 'failed' }
    })
    const again = () => assert.fail('the files were rerun')

    assert.deepEqual(await secondChance(first, again), { endings: first, flaky: [] })
  })
})
