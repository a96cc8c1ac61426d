// Mocha's `spec` reporter, and beside it a file with the counts of the run.
const { writeFileSync } = require('node:fs')
const { reporters } = require('mocha')

module.exports = class CountingReporter extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options)
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats
      const file = process.env.HEARTH_TEST_COUNTS
      if (file) writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, skipped: pending }))
    })
  }
}
