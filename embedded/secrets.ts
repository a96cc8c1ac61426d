import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'

/** The secrets that an embedded platform generates once and stores in its data directory. */
export interface Secrets {
  postgres_password: string
  encryption_key: string
  operations_key: string
  /** Those of the first account; absent until the first start has created it. */
  account_id?: string
  api_key?: string
}

/** Reads the secrets of a data directory, or generates them on the first start. */
export function loadSecrets(file: string): Secrets {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Secrets
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err
  }
  const secrets: Secrets = {
    postgres_password: randomBytes(18).toString('base64url'),
    encryption_key: randomBytes(32).toString('base64'),
    operations_key: `hops_${randomBytes(24).toString('base64url')}`,
  }
  saveSecrets(file, secrets)
  return secrets
}

/** Replaces the file atomically; only its owner may read it. */
export function saveSecrets(file: string, secrets: Secrets): void {
  writeJsonFile(file, secrets)
}

/** Writes JSON to a temporary file and renames it, so that a reader never sees a part of it. */
export function writeJsonFile(file: string, value: unknown): void {
  const next = `${file}.${process.pid}.new`
  writeFileSync(next, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  renameSync(next, file)
}
