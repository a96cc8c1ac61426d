import type { Transaction } from 'kysely'
import * as endpointRepository from '../../db/repositories/endpoints/endpoints.ts'
import { type Listing, listingColumns } from '../../db/repositories/models/listing.ts'
import * as versionRepository from '../../db/repositories/models/versions.ts'
import type { Database } from '../../db/tables.ts'
import type {
  EndpointRow,
  ModelVersionRow,
  NewEndpoint,
  NewModelVersion,
  VersionFileRow,
} from '../../db/tables/models.ts'
import { newId } from '../../domain/ids.ts'

type VersionColumns = 'version_id' | 'model_key' | 'runtime_profile' | keyof Listing

/** The endpoint columns that don't depend on its version. */
export type EndpointFields = Omit<NewEndpoint, VersionColumns | 'id'> & { id?: string }

/** Serves a version as an endpoint; `undefined` if the name isn't available. */
export const publishEndpoint = (
  trx: Transaction<Database>,
  version: Pick<ModelVersionRow, 'id' | 'model_key' | 'runtime_profile'>,
  listing: Listing,
  fields: EndpointFields,
): Promise<EndpointRow | undefined> =>
  endpointRepository.insertEndpoint(trx, {
    id: newId(),
    ...fields,
    version_id: version.id,
    model_key: version.model_key,
    runtime_profile: version.runtime_profile,
    ...listingColumns(listing),
  })

export interface Publication {
  version: Omit<NewModelVersion, keyof Listing>
  files: readonly Omit<VersionFileRow, 'version_id'>[]
  listing: Listing
  endpoint: Omit<EndpointFields, 'name'>
  /** The names to try, in order. */
  names: readonly string[]
}

/** Creates a version with its files and the endpoint that serves it; `undefined` if no name is available. */
export async function publishVersion(
  trx: Transaction<Database>,
  { version, files, listing, endpoint, names }: Publication,
): Promise<EndpointRow | undefined> {
  const row = await versionRepository.insertVersion(trx, { ...version, ...listingColumns(listing) }, files)
  for (const name of names) {
    const published = await publishEndpoint(trx, row, listing, { ...endpoint, name })
    if (published) return published
  }
  return undefined
}
