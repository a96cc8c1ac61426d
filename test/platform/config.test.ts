import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { configurationDocument } from '../../platform/config-document.ts'
import { ConfigError, readConfig, required } from '../../platform/config.ts'

describe('configuration', () => {
  it('takes the defaults from an empty environment', () => {
    const config = readConfig({})

    assert.equal(config.HEARTH_PORT, 8420)
    assert.deepEqual(config.HEARTH_FEATURES, [])
    assert.equal(config.HEARTH_MEMORY, false)
    assert.equal(config.DATABASE_URL, undefined)
  })

  it('parses lists, flags and numbers', () => {
    const config = readConfig({
      HEARTH_FEATURES: 'webhooks, memory',
      HEARTH_MEMORY: '1',
      HEARTH_RATE_LIMIT: '5',
    })

    assert.deepEqual(config.HEARTH_FEATURES, ['webhooks', 'memory'])
    assert.equal(config.HEARTH_MEMORY, true)
    assert.equal(config.HEARTH_RATE_LIMIT, 5)
  })

  for (const [name, value, expected] of [
    ['HEARTH_PORT', '99999', /HEARTH_PORT must be a port from 0 to 65535, not "99999"/],
    ['HEARTH_PORT', '80x', /HEARTH_PORT must be a port/],
    ['HEARTH_RATE_LIMIT', '-1', /HEARTH_RATE_LIMIT must be a whole number/],
    ['HEARTH_LOG_LEVEL', 'loud', /HEARTH_LOG_LEVEL must be one of trace, .*, not "loud"/],
    ['HEARTH_ENCRYPTION_KEYS', 'c2hvcnQ=', /HEARTH_ENCRYPTION_KEYS must be base64 keys of 32 bytes each$/],
    ['HEARTH_MEMORY', 'yes', /HEARTH_MEMORY must be 0 or 1/],
    ['HEARTH_EGRESS_ALLOW', '10.0.0.0/8', /HEARTH_EGRESS_ALLOW must be comma-separated CIDR:port entries/],
    ['DATABASE_URL', 'nonsense', /DATABASE_URL must be an absolute URL/],
  ] as const) {
    it(`refuses ${name}=${value} in a sentence`, () => {
      assert.throws(() => readConfig({ [name]: value }), expected)
    })
  }

  it('takes an empty path for the default', () => {
    assert.equal(readConfig({ HEARTH_CACHE_DIR: '' }).HEARTH_CACHE_DIR, readConfig({}).HEARTH_CACHE_DIR)
  })

  it('says what a missing setting is for', () => {
    assert.throws(() => required(readConfig({}), 'DATABASE_URL'), ConfigError)
    assert.throws(() => required(readConfig({}), 'DATABASE_URL'), /DATABASE_URL must be set: PostgreSQL/)
  })

  it('is documented as it is declared', async () => {
    const written = await readFile(new URL('../../docs/configuration.md', import.meta.url), 'utf8')

    assert.equal(written, configurationDocument(), 'run: npm run config:write')
  })
})
