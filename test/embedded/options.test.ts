import assert from 'node:assert/strict'
import { describe, it } from 'mocha'
import { startOptions, UsageError } from '../../embedded/options.ts'
import { readConfig } from '../../platform/config.ts'

const config = readConfig({ HEARTH_PORT: '0', HEARTH_DATA_DIR: '/data' })

describe('npm start options', () => {
  it('default to the data directory and port from the environment, without --fresh', () => {
    assert.deepEqual(startOptions([], config), { dataDir: '/data', port: 0, fresh: false })
  })

  it('accept a ready file and --fresh', () => {
    const options = startOptions(['--ready-file', '/tmp/ready.json', '--fresh'], config)

    assert.deepEqual(options, { dataDir: '/data', port: 0, fresh: true, readyFile: '/tmp/ready.json' })
  })

  it('show the help with --help', () => {
    assert.equal(startOptions(['--help'], config), undefined)
  })

  for (const argv of [['--frseh'], ['now'], ['--ready-file'], ['--ready-file='], ['--fresh=1']]) {
    it(`reject ${argv.join(' ')} with one sentence`, () => {
      assert.throws(
        () => startOptions(argv, config),
        (err) => err instanceof UsageError && /^[^\n]+\.$/.test(err.message),
      )
    })
  }
})
