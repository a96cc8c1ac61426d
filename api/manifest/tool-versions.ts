import { hash } from 'node:crypto'
import type { Kysely, Transaction } from 'kysely'
import * as toolSourceRepository from '../../db/repositories/tools/sources.ts'
import type { ToolSourceRow } from '../../db/repositories/tools/sources.ts'
import * as toolVersionRepository from '../../db/repositories/tools/versions.ts'
import type { ToolVersion } from '../../db/repositories/tools/versions.ts'
import type { Database } from '../../db/tables.ts'
import { MANIFEST_FORMAT, type UnversionedManifest } from '../../domain/tools/manifest.ts'
import { schemaChange } from '../../domain/tools/schema-change.ts'
import { FIRST_VERSION, heavier, nextVersion } from '../../domain/tools/version.ts'

/** An endpoint with the version of its manifest. */
export interface VersionedSource {
  source: ToolSourceRow
  version: string
}

type ManifestBuilder = (source: ToolSourceRow) => UnversionedManifest

/** Two gateways may store a tool's first version at the same time; the slower one reads it again. */
const MAX_ATTEMPTS = 5

/**
 * Returns endpoints with the versions of their manifests. If a manifest has changed, stores its next version first.
 * This locks the last version's row and reads the endpoint under that lock, so each change creates exactly one version
 * even if several gateways see it. `describe` must not depend on the reader.
 */
export async function withVersions(
  db: Kysely<Database>,
  sources: readonly ToolSourceRow[],
  describe: ManifestBuilder,
): Promise<VersionedSource[]> {
  const done: VersionedSource[] = []
  let open = sources
  for (let attempt = 1; open.length > 0; attempt++) {
    const changed: ToolSourceRow[] = []
    for (const source of open) {
      const { version } = source
      if (version !== null && (attempt > MAX_ATTEMPTS || isCurrent(source, describe)))
        done.push({ source, version })
      else changed.push(source)
    }
    open =
      changed.length === 0
        ? []
        : await db.transaction().execute((trx) => moveVersions(trx, changed, describe))
  }
  return done
}

/** A gateway from a later release may have created the version with newer rules; it counts as current. */
function isCurrent(source: ToolSourceRow, describe: ManifestBuilder): boolean {
  if (source.digest === null || source.format === null) return false
  return source.format > MANIFEST_FORMAT || source.digest.equals(digestOf(describe(source)))
}

const digestOf = (manifest: UnversionedManifest): Buffer => hash('sha256', JSON.stringify(manifest), 'buffer')

async function moveVersions(
  trx: Transaction<Database>,
  changed: readonly ToolSourceRow[],
  describe: ManifestBuilder,
): Promise<ToolSourceRow[]> {
  const ids = changed.map(({ id }) => id)
  const stored = new Map(
    (await toolVersionRepository.lockToolVersions(trx, ids)).map((row) => [row.endpoint_id, row]),
  )
  const fresh = await toolSourceRepository.readTools(trx, ids)
  const first: ToolVersion[] = []
  const next: ToolVersion[] = []
  for (const source of fresh) {
    const before = stored.get(source.id)
    const after = {
      endpoint_id: source.id,
      digest: digestOf(describe(source)),
      format: MANIFEST_FORMAT,
      input_schema: source.input_schema,
      output_schema: source.output_schema,
    }
    if (!before) first.push({ ...after, version: FIRST_VERSION })
    else if (!before.digest.equals(after.digest) && before.format <= MANIFEST_FORMAT) {
      const weight = heavier(
        schemaChange('input', before.input_schema, after.input_schema),
        schemaChange('output', before.output_schema, after.output_schema),
      )
      next.push({ ...after, version: nextVersion(before.version, weight) })
    }
  }
  await toolVersionRepository.insertToolVersions(trx, first)
  await toolVersionRepository.replaceToolVersions(trx, next)
  const now = new Map(
    (await toolVersionRepository.readToolVersions(trx, ids)).map((row) => [row.endpoint_id, row]),
  )
  return fresh.map((source) => ({ ...source, ...now.get(source.id) }))
}
