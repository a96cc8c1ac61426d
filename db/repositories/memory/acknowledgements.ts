import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** Returns the number of changes to grants and namespaces so far. */
export async function readMemoryVersion(db: Kysely<Database>): Promise<number> {
  const { version } = await db
    .selectFrom('cache_version')
    .select('version')
    .where('name', '=', 'memory')
    .executeTakeFirstOrThrow()
  return version
}

/** Records that a gateway no longer reads memory under grants older than this version. */
export async function acknowledgeMemory(
  db: Kysely<Database>,
  gatewayId: string,
  version: number,
): Promise<void> {
  await db
    .updateTable('gateway')
    .set({ memory_version: version })
    .where('id', '=', gatewayId)
    .where((eb) => eb.or([eb('memory_version', 'is', null), eb('memory_version', '<', version)]))
    .execute()
}

/** Returns whether every live gateway that serves memory has acknowledged this version. */
export async function isAcknowledged(db: Kysely<Database>, version: number): Promise<boolean> {
  const { rows } = await sql<{ open: boolean }>`
    select exists (
      select from gateway where lease_expires_at > now() and memory_version < ${version}) as open`.execute(db)
  return rows[0]?.open === false
}

/**
 * Records the embedding model that a gateway is configured with; null for none. Returns the models of the other live
 * gateways that have one.
 */
export async function noteModel(
  db: Kysely<Database>,
  gatewayId: string,
  modelKey: string | null,
): Promise<string[]> {
  await db
    .updateTable('gateway')
    .set({ memory_model: modelKey })
    .where('id', '=', gatewayId)
    .where('memory_model', 'is distinct from', modelKey)
    .execute()
  const { rows } = await sql<{ memory_model: string }>`
    select distinct memory_model from gateway
    where id <> ${gatewayId} and lease_expires_at > now() and memory_model is not null`.execute(db)
  return rows.map(({ memory_model }) => memory_model)
}
