// Mocha's `spec` reporter, and beside it a file that gets one JSON line as each test ends, for mocha-run.ts to read:
// what was told stays told when the run dies.
const { appendFileSync } = require('node:fs')
const path = require('node:path')
const { reporters } = require('mocha')

const OUTCOMES = { pass: 'passed', fail: 'failed', pending: 'skipped' }

module.exports = class RecordingReporter extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options)
    const record = process.env.HEARTH_TEST_RECORD
    if (!record) return
    const tell = (line) => appendFileSync(record, `${JSON.stringify(line)}\n`)
    for (const [event, outcome] of Object.entries(OUTCOMES)) {
      runner.on(event, (test) =>
        tell({ file: test.file ? path.relative('', test.file) : '', title: test.fullTitle(), outcome }),
      )
    }
    runner.once('end', () => tell({ ended: true }))
  }
}
