import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'

export interface ToolVersion {
  endpoint_id: string
  version: string
  digest: Buffer
  format: number
  input_schema: Record<string, unknown>
  output_schema: Record<string, unknown>
}

/**
 * Reads and locks the versions of these endpoints' manifests, in a fixed order, so that only one gateway at a time
 * changes each.
 */
export function lockToolVersions(
  trx: Transaction<Database>,
  endpointIds: readonly string[],
): Promise<ToolVersion[]> {
  return trx
    .selectFrom('tool_version')
    .select(['endpoint_id', 'version', 'digest', 'format', 'input_schema', 'output_schema'])
    .where('endpoint_id', 'in', endpointIds)
    .orderBy('endpoint_id')
    .forUpdate()
    .execute()
}

/** Stores first versions; if another gateway has already stored one, that one stays. */
export async function insertToolVersions(
  trx: Transaction<Database>,
  versions: readonly ToolVersion[],
): Promise<void> {
  if (versions.length === 0) return
  await sql`
    insert into tool_version (endpoint_id, version, digest, format, input_schema, output_schema)
    select ${FIELDS} from ${records(versions)}
    order by endpoint_id
    on conflict (endpoint_id) do nothing`.execute(trx)
}

/** Replaces versions that the transaction has locked. */
export async function replaceToolVersions(
  trx: Transaction<Database>,
  versions: readonly ToolVersion[],
): Promise<void> {
  if (versions.length === 0) return
  await sql`
    update tool_version set version = new.version, digest = decode(new.digest, 'hex'), format = new.format,
      input_schema = new.input_schema, output_schema = new.output_schema, updated_at = now()
    from ${records(versions)} where tool_version.endpoint_id = new.endpoint_id`.execute(trx)
}

/** Reads the currently stored versions. */
export async function readToolVersions(
  db: Kysely<Database>,
  endpointIds: readonly string[],
): Promise<Pick<ToolVersion, 'endpoint_id' | 'version' | 'digest' | 'format'>[]> {
  if (endpointIds.length === 0) return []
  return db
    .selectFrom('tool_version')
    .select(['endpoint_id', 'version', 'digest', 'format'])
    .where('endpoint_id', 'in', endpointIds)
    .execute()
}

const FIELDS = sql`endpoint_id, version, decode(digest, 'hex'), format, input_schema, output_schema`

const records = (versions: readonly ToolVersion[]) => sql`jsonb_to_recordset(${JSON.stringify(
  versions.map((version) => ({ ...version, digest: version.digest.toString('hex') })),
)}::jsonb) as new (
    endpoint_id uuid, version text, digest text, format integer, input_schema jsonb, output_schema jsonb
  )`
