import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import {
  hasLocalDatabase,
  localObjects,
  localSecrets,
  openLocalDatabase,
} from '../../embedded/local-database.ts'
import type { Config } from '../../platform/config.ts'
import { openObjectStore } from '../../platform/object-store/open.ts'
import type { ObjectStore } from '../../platform/object-store/store.ts'
import { filled } from '../arguments.ts'
import { cliConfig } from '../cli-config.ts'
import { usageError } from '../cli-error.ts'

/** A database and the object store next to it, which need no running platform. */
export interface Deployment {
  /** Where it was found, for messages. */
  readonly from: string
  /** The folder of an embedded platform; undefined for a server of your own. */
  readonly dataDir: string | undefined
  /** False for a data directory without a database, which `openDatabase` creates. */
  readonly hasDatabase: boolean
  readonly encryptionKeys: readonly string[]
  openDatabase(): Promise<{ readonly url: string } & AsyncDisposable>
  openObjects(): Promise<ObjectStore>
}

export interface DeploymentOptions {
  dataDir?: string
}

/** Adds the option that names a deployment. */
export const withDataDir = (command: Command): Command =>
  command.option(
    '--data-dir <folder>',
    'data directory of `npm start` (default: DATABASE_URL if it is set, else HEARTH_DATA_DIR, else .hearth)',
    filled,
  )

/** Finds the deployment, like `npm start` does: DATABASE_URL comes before the data directory's own PostgreSQL. */
export function findDeployment({ dataDir }: DeploymentOptions): Deployment {
  const config = cliConfig()
  const url = config.DATABASE_URL
  if (dataDir === undefined && url) {
    return {
      from: 'DATABASE_URL',
      dataDir: undefined,
      hasDatabase: true,
      encryptionKeys: config.HEARTH_ENCRYPTION_KEYS,
      openDatabase: async () => ({ url, [Symbol.asyncDispose]: async () => {} }),
      openObjects: () => openStore(config),
    }
  }
  const folder = dataDir === undefined ? config.HEARTH_DATA_DIR : resolve(dataDir)
  return {
    from: `the data directory ${folder}`,
    dataDir: folder,
    hasDatabase: hasLocalDatabase(folder),
    encryptionKeys: config.HEARTH_ENCRYPTION_KEYS.length > 0 ? config.HEARTH_ENCRYPTION_KEYS : keyOf(folder),
    openDatabase: () => openLocalDatabase(folder),
    openObjects: () => openStore({ ...config, HEARTH_OBJECT_DIR: localObjects(folder) }),
  }
}

/** Like `findDeployment`, but throws if there is no database yet. */
export function existingDeployment(options: DeploymentOptions): Deployment {
  const deployment = findDeployment(options)
  if (deployment.hasDatabase) return deployment
  throw usageError(
    `${deployment.dataDir} has no database. Pass the folder of \`npm start\` with --data-dir, or set DATABASE_URL.`,
  )
}

function keyOf(dataDir: string): string[] {
  const key = localSecrets(dataDir)?.encryption_key
  return key === undefined ? [] : [key]
}

/** Throws instead of creating an empty folder, because a wrong folder must not look like a store without objects. */
async function openStore(config: Config): Promise<ObjectStore> {
  if (!config.S3_BUCKET && !existsSync(config.HEARTH_OBJECT_DIR)) {
    throw usageError(
      `HEARTH_OBJECT_DIR: there is no folder ${config.HEARTH_OBJECT_DIR}. Set it, or S3_BUCKET, to the object store of this deployment.`,
    )
  }
  // Nothing here hands out signed URLs, so their base is never used.
  return openObjectStore(config, () => '')
}
