import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadSecrets } from '../../embedded/secrets.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

describe('data directory secrets', () => {
  it('are created once, readable only by their owner', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'secrets.json')

    const made = loadSecrets(file)

    assert.deepEqual(loadSecrets(file), made)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.equal(new Set(Object.values(made)).size, 4)
  })

  it('keep values written by an earlier version, and gain the evaluator token that it lacked', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'secrets.json')
    const { evaluator_token: _, ...earlier } = loadSecrets(file)
    writeFileSync(file, JSON.stringify({ ...earlier, api_key: 'hk_known' }))

    const { evaluator_token: token, ...rest } = loadSecrets(file)

    assert.deepEqual(rest, { ...earlier, api_key: 'hk_known' })
    assert.match(token, /^heval_.{32}$/)
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).evaluator_token, token)
  })
})
