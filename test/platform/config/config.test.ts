import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { ConfigError, readConfig, required } from '../../../platform/config.ts'
import { configurationDocument } from '../../../platform/config/document.ts'

describe('configuration', () => {
  it('uses the defaults for an empty environment', () => {
    const config = readConfig({})

    assert.equal(config.HEARTH_PORT, 8420)
    assert.deepEqual(config.HEARTH_FEATURES, [])
    assert.equal(config.HEARTH_MEMORY, false)
    assert.equal(config.DATABASE_URL, undefined)
  })

  it('parses lists, flags and numbers', () => {
    const config = readConfig({
      HEARTH_EGRESS_BLOCK: 'a.example, b.example',
      HEARTH_MEMORY: '1',
      HEARTH_RATE_LIMIT: '5',
    })

    assert.deepEqual(config.HEARTH_EGRESS_BLOCK, ['a.example', 'b.example'])
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
    ['HEARTH_EGRESS_ALLOW', '10.0.0.0/33:443', /HEARTH_EGRESS_ALLOW must be comma-separated CIDR:port/],
    ['HEARTH_EGRESS_ALLOW', '10.0.0.999/8:443', /HEARTH_EGRESS_ALLOW must be comma-separated CIDR:port/],
    ['HEARTH_EGRESS_BLOCK', 'https://a.example', /HEARTH_EGRESS_BLOCK must be comma-separated domain names/],
    ['HEARTH_FEATURES', 'webhook', /HEARTH_FEATURES must be empty or webhooks, not "webhook"/],
    ['HEARTH_HOST', '1.2.3.4:80', /HEARTH_HOST must be an IP address or a host name, not "1.2.3.4:80"/],
    ['HEARTH_BASE_URL', 'localhost:8420', /HEARTH_BASE_URL must be a URL with http:\/\/ or https:\/\//],
    ['HEARTH_BODY_MEMORY_MB', '0', /HEARTH_BODY_MEMORY_MB must be a whole number of at least 1/],
    ['HEARTH_CREDIT_USD', '0', /HEARTH_CREDIT_USD must be a number above 0, for example 0.01, not "0"/],
    ['HEARTH_RATE_BURST', '1e3', /HEARTH_RATE_BURST must be a whole number of at least 1/],
    ['HEARTH_NODE_RETRY_S', '201', /HEARTH_NODE_RETRY_S must be a whole number from 1 to 200, not "201"/],
    ['HEARTH_NODE_RETRY_S', '0', /HEARTH_NODE_RETRY_S must be a whole number from 1 to 200, not "0"/],
    ['TEMPORAL_ADDRESS', 'http://temporal:7233', /TEMPORAL_ADDRESS must be host:port, without a scheme/],
    ['TEMPORAL_ADDRESS', 'temporal', /TEMPORAL_ADDRESS must be host:port/],
    ['DATABASE_URL', 'nonsense', /DATABASE_URL must be a URL with postgres:\/\/$/],
    ['DATABASE_URL', 'mysql://me:secret@db/x', /DATABASE_URL must be a URL with postgres:\/\/$/],
  ] as const) {
    it(`rejects ${name}=${value} with a message`, () => {
      assert.throws(() => readConfig({ [name]: value }), expected)
    })
  }

  it('accepts addresses as people usually write them', () => {
    const config = readConfig({
      DATABASE_URL: 'postgresql://me:p%40ss@[::1]:5432/hearth?sslmode=require',
      HEARTH_HOST: '::',
      TEMPORAL_ADDRESS: '[::1]:7233',
      HEARTH_EGRESS_ALLOW: '[fd00::]/8:8443, 10.0.0.0/8:443',
    })

    assert.equal(config.HEARTH_HOST, '::')
    assert.equal(config.HEARTH_EGRESS_ALLOW.length, 2)
  })

  it('reads an empty host as the default, not as all networks', () => {
    assert.equal(readConfig({ HEARTH_HOST: '' }).HEARTH_HOST, '127.0.0.1')
  })

  it('reads an empty path as the default', () => {
    assert.equal(readConfig({ HEARTH_CACHE_DIR: '' }).HEARTH_CACHE_DIR, readConfig({}).HEARTH_CACHE_DIR)
  })

  it('explains what a missing setting is for', () => {
    assert.throws(() => required(readConfig({}), 'DATABASE_URL'), ConfigError)
    assert.throws(() => required(readConfig({}), 'DATABASE_URL'), /DATABASE_URL must be set: PostgreSQL/)
  })

  it('is documented as it is declared', async () => {
    const written = await readFile(new URL('../../../docs/configuration.md', import.meta.url), 'utf8')

    assert.equal(written, configurationDocument(), 'run: npm run config:write')
  })
})
