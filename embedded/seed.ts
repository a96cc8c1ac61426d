import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { connectOnce, openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import * as nodeRepository from '../db/repositories/nodes/nodes.ts'
import * as accountRepository from '../db/repositories/platform/accounts.ts'
import * as apiKeyRepository from '../db/repositories/platform/api-keys.ts'
import type { Database } from '../db/tables.ts'
import { unusable } from '../platform/reason.ts'
import { StartError } from './options.ts'
import type { Layout } from './paths.ts'
import { saveSecrets } from './secrets.ts'
import type { Secrets } from './secrets.ts'

/** The account that the embedded platform is used with. */
export interface FirstAccount {
  accountId: string
  apiKey: string
  /** A one-time join token; empty when the node has joined before. */
  nodeToken: string
}

/**
 * Migrates the database and, on the first start, creates the first account, its admin key and the node's join token.
 */
export async function prepareDatabase(url: string, layout: Layout, secrets: Secrets): Promise<FirstAccount> {
  await using db = openDatabase(url, { max: 2 })
  await connectOnce(db).catch((cause: unknown) => {
    throw new StartError(unusable('DATABASE_URL', cause).message, { cause })
  })
  await migrate(db)
  const { accountId, apiKey } = await firstAccount(db, layout, secrets)
  const hasJoined = await staysJoined(db, layout.node)
  // The owner of the machine runs the platform, so its node works for every account.
  const nodeToken = hasJoined
    ? ''
    : await nodeRepository.createNodeToken(db, { accountId, sharing: 'shared' })
  return { accountId, apiKey, nodeToken }
}

/** Returns the account and key from earlier starts if the database still has them, otherwise new ones. */
async function firstAccount(db: Kysely<Database>, layout: Layout, secrets: Secrets) {
  if (secrets.api_key && secrets.account_id) {
    const known = await apiKeyRepository.findApiKey(db, apiKeyRepository.hashApiKey(secrets.api_key))
    if (known) return { accountId: secrets.account_id, apiKey: secrets.api_key }
  }
  return db.transaction().execute(async (trx) => {
    const known = secrets.account_id && (await accountRepository.findAccount(trx, secrets.account_id))
    const { id: accountId } = known || (await accountRepository.createAccount(trx, { name: 'embedded' }))
    const { key: apiKey } = await apiKeyRepository.createApiKey(trx, {
      accountId,
      name: 'embedded',
      role: 'admin',
    })
    // Write the file before committing: after a crash in between, the file has a key that does not exist, and the next
    // start creates another. In the other order, the text of a valid key could be lost.
    saveSecrets(layout.secrets, { ...secrets, account_id: accountId, api_key: apiKey })
    return { accountId, apiKey }
  })
}

/** Returns whether this machine's node has joined before and may stay; removes an invalid identity. */
async function staysJoined(db: Kysely<Database>, nodeDir: string): Promise<boolean> {
  const file = join(nodeDir, 'identity.json')
  const nodeId = joinedAs(file)
  if (nodeId === undefined) return false
  const isJoined = await nodeRepository.hasJoined(db, nodeId)
  if (!isJoined) rmSync(file, { force: true })
  return isJoined
}

function joinedAs(file: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as { node_id?: string }).node_id
  } catch {
    return undefined
  }
}
