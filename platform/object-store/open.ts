import { type Config, required } from '../config.ts'
import { usableFolder } from '../config/folder.ts'
import { openLocalObjectStore } from './local.ts'
import type { ObjectStore } from './store.ts'

/** Opens the configured store: the bucket `S3_BUCKET`, otherwise the directory `HEARTH_OBJECT_DIR`. */
export async function openObjectStore(
  config: Config,
  baseUrl: () => string = () => required(config, 'HEARTH_BASE_URL'),
): Promise<ObjectStore> {
  if (!config.S3_BUCKET) {
    usableFolder('HEARTH_OBJECT_DIR', config.HEARTH_OBJECT_DIR)
    return openLocalObjectStore({
      directory: config.HEARTH_OBJECT_DIR,
      baseUrl,
      reserveBytes: config.HEARTH_OBJECT_RESERVE_MB * 1024 * 1024,
    })
  }
  // The S3 client takes 9 MB of memory, so load it only if it is used.
  const { openS3ObjectStore } = await import('./s3.ts')
  return openS3ObjectStore({
    bucket: config.S3_BUCKET,
    region: config.S3_REGION,
    accessKeyId: required(config, 'S3_ACCESS_KEY_ID'),
    secretAccessKey: required(config, 'S3_SECRET_ACCESS_KEY'),
    ...(config.S3_ENDPOINT && { endpoint: config.S3_ENDPOINT }),
    ...(config.S3_PUBLIC_ENDPOINT && { publicEndpoint: config.S3_PUBLIC_ENDPOINT }),
    // Servers other than AWS rarely have a host name per bucket.
    forcePathStyle: config.S3_ENDPOINT !== undefined,
  })
}
