import { invalid } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'
import { assertPrefix } from '../../platform/object-store/store.ts'

/** What says which addresses of the object store callers may name. */
export interface Storage {
  readonly config: Pick<Config, 'S3_BUCKET'>
}

/** The name that stands for the bucket where objects lie in a directory. */
const LOCAL_BUCKET = 'hearth'

/**
 * The folder behind an `s3://` address of an ArtifactRef. An account reads below its own folder in the platform's bucket and
 * nowhere else: any other address is refused alike, whether something is there or not.
 */
export function storagePrefix(
  uri: string,
  accountId: string,
  { config }: Storage,
  place: readonly (string | number)[] = ['base'],
): string {
  const bucket = config.S3_BUCKET || LOCAL_BUCKET
  const allowed = `s3://${bucket}/accounts/${accountId}/`
  const refused = invalid(['body', ...place, 'uri'], `only addresses below ${allowed} may be read`)
  if (!uri.startsWith(allowed)) throw refused
  const path = uri.slice(`s3://${bucket}/`.length)
  try {
    return assertPrefix(path.endsWith('/') ? path : `${path}/`)
  } catch {
    throw refused
  }
}
