// Mocha's `spec` reporter that also appends one JSON line to a file as each test ends, for mocha-run.ts to read. The
// recorded outcomes survive when the run dies.
const { appendFileSync } = require('node:fs')
const path = require('node:path')
const { reporters } = require('mocha')

/** How long the process may keep running after its last test. */
const LINGER_MS = Number(process.env.HEARTH_TEST_LINGER_MS ?? 30_000)
const OUTCOMES = { pass: 'passed', fail: 'failed', pending: 'skipped' }
/** Limits of a recorded error. */
const MAX_ERROR_LINES = 6
const MAX_ERROR_CHARACTERS = 800

module.exports = class RecordingReporter extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options)
    const record = process.env.HEARTH_TEST_RECORD
    if (!record) return
    const tell = (line) => appendFileSync(record, `${JSON.stringify(line)}\n`)
    let lastAt = Date.now()
    for (const [event, outcome] of Object.entries(OUTCOMES)) {
      runner.on(event, (test, err) => {
        const file = test.file ? path.relative('', test.file) : ''
        // Measured since the end of the previous test, so that hooks count.
        const ms = Date.now() - lastAt
        lastAt += ms
        tell({ file, title: test.fullTitle(), outcome, ms, ...(err && { error: firstLines(err) }) })
      })
    }
    runner.once('end', () => {
      tell({ ended: true })
      setTimeout(() => {
        console.error('A test left something running; the process is killed.')
        tell({ lingers: true })
        process.kill(process.pid, 'SIGKILL')
      }, LINGER_MS).unref()
    })
  }
}

/** Returns the first lines of an error's message, and the line of the test that threw it. */
function firstLines(err) {
  const lines = String(err?.stack ?? err).split('\n')
  const isFrame = (line) => /^ +at /.test(line)
  const message = lines.filter((line) => line.trim() !== '' && !isFrame(line)).slice(0, MAX_ERROR_LINES)
  const place = lines.find((line) => isFrame(line) && /\.test\.[cm]?[jt]s:/.test(line))
  const short = message.join('\n').slice(0, MAX_ERROR_CHARACTERS)
  return place === undefined ? short : `${short}\n${place}`
}
