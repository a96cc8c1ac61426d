import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { TOKEN_PREFIX } from '../domain/token-prefixes.ts'

/** The secrets that an embedded platform generates once and stores in its data directory. */
export interface Secrets {
  postgres_password: string
  encryption_key: string
  operations_key: string
  evaluator_token: string
  /** The id of the first account; absent until the first start has created it. */
  account_id?: string
  api_key?: string
}

/** Reads the secrets of a data directory, and generates any that are missing: all of them on the first start. */
export function loadSecrets(file: string): Secrets {
  const known = readSecrets(file)
  const secrets: Secrets = {
    postgres_password: randomBytes(18).toString('base64url'),
    encryption_key: randomBytes(32).toString('base64'),
    operations_key: `${TOKEN_PREFIX.operationsKey}${randomBytes(24).toString('base64url')}`,
    evaluator_token: `${TOKEN_PREFIX.evaluatorToken}${randomBytes(24).toString('base64url')}`,
    ...known,
  }
  if (known?.evaluator_token === undefined) saveSecrets(file, secrets)
  return secrets
}

/** Data directories from earlier versions have no `evaluator_token`. */
function readSecrets(file: string): (Omit<Secrets, 'evaluator_token'> & Partial<Secrets>) | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Secrets
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err
    return undefined
  }
}

/** Replaces the file atomically; only its owner may read it. */
export function saveSecrets(file: string, secrets: Secrets): void {
  writeJsonFile(file, secrets)
}

/** Writes JSON to a temporary file and renames it, so that a reader never sees a partial file. */
export function writeJsonFile(file: string, value: unknown): void {
  const next = `${file}.${process.pid}.new`
  writeFileSync(next, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  renameSync(next, file)
}
