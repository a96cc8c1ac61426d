import { invalid } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'
import { assertPrefix } from '../../platform/object-store/store.ts'

/** The settings that determine which object store addresses callers may name. */
export interface Storage {
  readonly config: Pick<Config, 'S3_BUCKET'>
}

/** The bucket name for an object store in a directory. */
const LOCAL_BUCKET = 'hearth'

/**
 * Returns the folder for the `s3://` address of an ArtifactRef. An account may only read within its own folder in the
 * platform's bucket. Any other address gets the same error, whether or not an object exists there.
 */
export function storagePrefix(
  uri: string,
  accountId: string,
  { config }: Storage,
  loc: readonly (string | number)[] = ['base'],
): string {
  const bucket = config.S3_BUCKET || LOCAL_BUCKET
  const allowed = `s3://${bucket}/accounts/${accountId}/`
  const refused = invalid(['body', ...loc, 'uri'], `only addresses below ${allowed} may be read`)
  if (!uri.startsWith(allowed)) throw refused
  const path = uri.slice(`s3://${bucket}/`.length)
  try {
    return assertPrefix(path.endsWith('/') ? path : `${path}/`)
  } catch {
    throw refused
  }
}
