#!/usr/bin/env node
// Writes the secrets for docker-compose.yml to .env. Never changes an existing file.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const file = join(resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..'), '.env')
const secrets = {
  POSTGRES_PASSWORD: randomBytes(24).toString('hex'),
  S3_SECRET_ACCESS_KEY: randomBytes(24).toString('hex'),
  HEARTH_OPERATIONS_KEY: randomBytes(24).toString('hex'),
  HEARTH_ENCRYPTION_KEYS: randomBytes(32).toString('base64'),
}
const text = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
try {
  writeFileSync(file, text.join(''), { mode: 0o600, flag: 'wx' })
  process.stdout.write(
    'Wrote .env with new secrets, readable only by you; the database and the stored secrets depend on them\n',
  )
} catch (err) {
  if (err.code !== 'EEXIST') throw err
  process.stdout.write('.env already exists and was not changed\n')
}
