import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import type { Deployment } from '../../../../cli/backup/deployment.ts'
import * as accountRepository from '../../../../db/repositories/platform/accounts.ts'
import { openLocalObjectStore } from '../../../../platform/object-store/local.ts'
import { SecretBox } from '../../../../platform/secret-box.ts'
import type { TestDatabase } from '../../servers/database.ts'

export const KEY = Buffer.alloc(32, 1).toString('base64')
export const OTHER_KEY = Buffer.alloc(32, 2).toString('base64')

/** A deployment whose database and objects are those of a test. */
export function deploymentOf({ url }: TestDatabase, objectDir: string, encryptionKeys = [KEY]): Deployment {
  mkdirSync(objectDir, { recursive: true })
  return {
    from: 'the test',
    dataDir: undefined,
    hasDatabase: true,
    encryptionKeys,
    openDatabase: async () => ({ url, [Symbol.asyncDispose]: async () => {} }),
    openObjects: () => openLocalObjectStore({ directory: objectDir, baseUrl: () => '' }),
  }
}

/** Creates an account with a stored reply that is encrypted with `KEY`. */
export async function buildAccount({ db }: TestDatabase): Promise<void> {
  const { id } = await db
    .transaction()
    .execute((trx) => accountRepository.createAccount(trx, { name: 'one' }))
  await db
    .insertInto('idempotency')
    .values({
      account_id: id,
      operation: 'POST /datasets',
      key: randomUUID(),
      body_digest: Buffer.alloc(32),
      status: 200,
      reply: new SecretBox([KEY]).seal('{}', 'reply'),
    })
    .execute()
}
