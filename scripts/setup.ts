import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CreateBucketCommand, HeadBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import * as nodeRepository from '../db/repositories/nodes/nodes.ts'
import * as accountRepository from '../db/repositories/platform/accounts.ts'
import * as apiKeyRepository from '../db/repositories/platform/api-keys.ts'
import { addSearchAttributes, temporalReady } from '../embedded/temporal/server.ts'
import { readConfig, required } from '../platform/config.ts'
import { temporalAccess } from '../platform/temporal.ts'

/**
 * Prepares the services of a deployment: Temporal's namespace and search attributes, the bucket and the schema. Given
 * two folders, it also creates, the first time, an account with its admin key in one of them, and a join token for one
 * node in the other, which nodes may read. Safe to repeat.
 */
const [folder, nodeFolder = folder] = process.argv.slice(2)
const config = readConfig()
const temporal = { ...temporalAccess(config), namespace: config.TEMPORAL_NAMESPACE }
await temporalReady(temporal, { timeoutMs: 120_000, makesNamespace: true })
await addSearchAttributes(temporal)

await createBucket()

await using db = openDatabase(required(config, 'DATABASE_URL'), { max: 2 })
await migrate(db)
if (folder !== undefined && nodeFolder !== undefined) await createFirstAccount(folder, nodeFolder)

/** Creates the first account and writes its credentials, unless an earlier run did; prints them. */
async function createFirstAccount(folder: string, nodeFolder: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const credentials = join(folder, 'account.json')
  if (!existsSync(credentials)) {
    const { accountId, key } = await db.transaction().execute(async (trx) => {
      const { id } = await accountRepository.createAccount(trx, { name: 'first' })
      const { key: text } = await apiKeyRepository.createApiKey(trx, {
        accountId: id,
        name: 'first',
        role: 'admin',
      })
      return { accountId: id, key: text }
    })
    const nodeToken = await nodeRepository.createNodeToken(db, { accountId, sharing: 'shared' })
    mkdirSync(nodeFolder, { recursive: true })
    writeFileSync(join(nodeFolder, 'token'), nodeToken, { mode: 0o644 })
    writeFileSync(credentials, `${JSON.stringify({ account_id: accountId, api_key: key }, null, 2)}\n`, {
      mode: 0o600,
    })
  }
  console.log(readFileSync(credentials, 'utf8'))
}

/** Creates the bucket of the object store if it is missing; the key needs no right to create one that exists. */
async function createBucket(): Promise<void> {
  if (!config.S3_BUCKET) return
  const client = new S3Client({
    region: config.S3_REGION,
    forcePathStyle: true,
    ...(config.S3_ENDPOINT && { endpoint: config.S3_ENDPOINT }),
    credentials: { accessKeyId: config.S3_ACCESS_KEY_ID, secretAccessKey: config.S3_SECRET_ACCESS_KEY },
  })
  const bucket = { Bucket: config.S3_BUCKET }
  try {
    const isThere = await client.send(new HeadBucketCommand(bucket)).then(
      () => true,
      () => false,
    )
    if (!isThere) await client.send(new CreateBucketCommand(bucket))
  } catch (err) {
    if (!(err as Error).name.startsWith('BucketAlready')) throw err
  } finally {
    client.destroy()
  }
}
