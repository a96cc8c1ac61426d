import { hash } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import { completeSpace, identityOfFiles, identityOfSpace } from '../../../domain/cohorts/spaces/spaces.ts'
import { newId } from '../../../domain/ids.ts'
import { isUuid } from '../../../domain/uuid.ts'
import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import type { Database } from '../../tables.ts'
import type { ModelSpaceRow } from '../../tables/evaluator.ts'

/** A space as planners see it. */
export interface ActiveSpace extends Pick<
  ModelSpaceRow,
  | 'id'
  | 'model_config_id'
  | 'name'
  | 'role'
  | 'kind'
  | 'fingerprint'
  | 'generation'
  | 'status'
  | 'specification'
> {
  dimensions: number | null
  dtype: string | null
}

/** Returns the version behind each API id: the id of a hub import, or of a version. */
const versionsBehind = (db: Kysely<Database>, modelConfigIds: readonly string[]) =>
  db
    .selectFrom(sql<{ id: string }>`unnest(${modelConfigIds}::uuid[])`.as<'asked'>(sql`asked(id)`))
    .leftJoin('hub_model', 'hub_model.id', 'asked.id')
    .innerJoin('model_version', (join) =>
      join.on('model_version.id', '=', sql<string>`coalesce(hub_model.version_id, asked.id)`),
    )

/** Finds the version behind the `model_config_id` of a hub import, or behind its own id. */
export async function findModel(
  db: Kysely<Database>,
  modelConfigId: string,
): Promise<{ versionId: string } | undefined> {
  const row = await versionsBehind(db, [modelConfigId]).select('model_version.id').executeTakeFirst()
  return row && { versionId: row.id }
}

/** Like `findModel`, but also locks the version for a registration. */
export async function lockModel(
  trx: Transaction<Database>,
  modelConfigId: string,
): Promise<{ versionId: string } | undefined> {
  const row = await versionsBehind(trx, [modelConfigId])
    .select('model_version.id')
    .forNoKeyUpdate('model_version')
    .executeTakeFirst()
  return row && { versionId: row.id }
}

/** Finds the first registered version that produces vectors in the space with this fingerprint. */
export async function findProducer(db: Kysely<Database>, fingerprint: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('model_space')
    .select('version_id')
    .where('fingerprint', '=', fingerprint)
    .where('status', '=', 'active')
    .where('role', '!=', 'accepts')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  return row?.version_id
}

export function findSpace(db: Kysely<Database>, id: string): Promise<ModelSpaceRow | undefined> {
  return db.selectFrom('model_space').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Returns which of these versions have never had their spaces registered or revoked. */
export function findWithoutSpaces(
  db: Kysely<Database>,
  versionIds: readonly string[],
): Promise<{ id: string; model_key: string; runtime_profile: string }[]> {
  return db
    .selectFrom('model_version')
    .select(['id', 'model_key', 'runtime_profile'])
    .where('id', '=', sql<string>`any(${versionIds}::uuid[])`)
    .where(
      sql<boolean>`not exists (select from model_space where version_id = model_version.id)
        and not exists (select from evaluator_revocation where kind = 'model' and subject_id = model_version.id)`,
    )
    .execute()
}

/** Returns the versions behind endpoints, by id or name, and behind ids of models. */
export async function findVersionsBehind(
  db: Kysely<Database>,
  { endpoints, models }: { endpoints: readonly string[]; models: readonly string[] },
): Promise<string[]> {
  const ids = endpoints.filter(isUuid)
  const { rows } = await sql<{ version_id: string }>`
    select version_id from endpoint where deleted_at is null and id = any(${ids}::uuid[])
    union select version_id from endpoint where deleted_at is null and name = any(${endpoints}::text[])
    union select coalesce(hub_model.version_id, asked.id)
      from unnest(${models}::uuid[]) asked(id) left join hub_model on hub_model.id = asked.id`.execute(db)
  return rows.map(({ version_id }) => version_id)
}

/** Finds the active spaces of models, each under the requested id. */
export async function findActiveSpaces(
  db: Kysely<Database>,
  modelConfigIds: readonly string[],
): Promise<ActiveSpace[]> {
  const rows = await versionsBehind(db, modelConfigIds)
    .innerJoin('model_space', 'model_space.version_id', 'model_version.id')
    .select([
      'model_space.id',
      'asked.id as model_config_id',
      'model_space.name',
      'role',
      'kind',
      'fingerprint',
    ])
    .select(['generation', 'status', 'specification'])
    .where('status', '=', 'active')
    .orderBy('asked.id')
    .orderBy('model_space.name')
    .execute()
  return rows.map((row) => ({
    ...row,
    dimensions: row.specification.dimensions ?? null,
    dtype: row.specification.dtype ?? null,
  }))
}

/** Returns the newest spaces of a version, whatever their state. */
export function newestSpaces(db: Kysely<Database>, versionId: string): Promise<ModelSpaceRow[]> {
  return db
    .selectFrom('model_space')
    .selectAll()
    .where('version_id', '=', versionId)
    .where('generation', '=', (eb) =>
      eb
        .selectFrom('model_space as other')
        .select(({ fn }) => fn.max('other.generation').as('newest'))
        .where('other.version_id', '=', versionId),
    )
    .orderBy('name')
    .execute()
}

/** Finds a space and locks it against changes of its state until the transaction ends. */
export function shareSpace(trx: Transaction<Database>, id: string): Promise<ModelSpaceRow | undefined> {
  return trx.selectFrom('model_space').selectAll().where('id', '=', id).forShare().executeTakeFirst()
}

/**
 * Locks the spaces at the ends of an edge against changes of their state, and returns whether one of them is revoked. A
 * space whose revocation lets hand-overs drain does not count.
 */
export async function isAnyRevoked(trx: Transaction<Database>, ids: readonly string[]): Promise<boolean> {
  if (ids.length === 0) return false
  const spaces = await trx
    .selectFrom('model_space')
    .select(['version_id', 'generation', 'status'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forShare()
    .execute()
  for (const { version_id, generation, status } of spaces) {
    if (status !== 'revoked') continue
    // A revocation also ends all older generations.
    const revocation = await trx
      .selectFrom('evaluator_revocation')
      .select('effect')
      .where('kind', '=', 'model')
      .where('subject_id', '=', version_id)
      .where('generation', '>=', generation)
      .orderBy('generation')
      .limit(1)
      .executeTakeFirst()
    if (revocation?.effect !== 'drain') return true
  }
  return false
}

export interface Registration {
  versionId: string
  modelConfigId: string
  spaces: readonly ModelSpace[]
  registeredBy: string
}

export interface RegisteredSpaces {
  generation: number
  rows: ModelSpaceRow[]
  replaced: number
}

/**
 * Registers the spaces of a locked version. Unchanged content keeps its generation; different content creates a new
 * one, and so does the first registration after a revocation.
 */
export async function registerSpaces(
  trx: Transaction<Database>,
  { versionId, modelConfigId, spaces, registeredBy }: Registration,
): Promise<RegisteredSpaces> {
  const files = await trx
    .selectFrom('version_file')
    .select(['path', 'sha256'])
    .where('version_id', '=', versionId)
    .execute()
  const digest = weightsDigest(files)
  const wanted = spaces.map((space) => completeSpace(space, digest))
  const current = await newestSpaces(trx, versionId)
  const isActive = current.some(({ status }) => status === 'active')
  if (isActive && isSame(current, wanted)) {
    return { generation: current[0]?.generation ?? 1, rows: inOrder(current, wanted), replaced: 0 }
  }

  const generation = Math.max(await lastRevoked(trx, versionId), current[0]?.generation ?? 0) + 1
  const { numUpdatedRows } = await trx
    .updateTable('model_space')
    .set({ status: 'superseded' })
    .where('version_id', '=', versionId)
    .where('status', '=', 'active')
    .executeTakeFirst()
  const rows = await trx
    .insertInto('model_space')
    .values(
      wanted.map((space) => ({
        id: newId(),
        version_id: versionId,
        model_config_id: modelConfigId,
        generation,
        name: space.name,
        role: space.role,
        kind: space.kind,
        fingerprint: fingerprintOf(space),
        specification: JSON.stringify(space),
        registered_by: registeredBy,
      })),
    )
    .returningAll()
    .execute()
  return { generation, rows: inOrder(rows, wanted), replaced: Number(numUpdatedRows) }
}

const identity = ({ name, role, max_tokens: limit }: ModelSpace, fingerprint: string): string =>
  [name, role, limit ?? '', fingerprint].join()

function isSame(rows: readonly ModelSpaceRow[], wanted: readonly ModelSpace[]): boolean {
  const have = new Set(rows.map(({ specification, fingerprint }) => identity(specification, fingerprint)))
  return (
    rows.length === wanted.length && wanted.every((space) => have.has(identity(space, fingerprintOf(space))))
  )
}

const inOrder = (rows: readonly ModelSpaceRow[], spaces: readonly ModelSpace[]): ModelSpaceRow[] =>
  spaces.flatMap(({ name }) => rows.filter((row) => row.name === name))

/** Returns the generation that was revoked last; 0 if there is none. */
async function lastRevoked(db: Kysely<Database>, versionId: string): Promise<number> {
  const row = await db
    .selectFrom('evaluator_revocation')
    .select(({ fn }) => fn.max('generation').as('generation'))
    .where('kind', '=', 'model')
    .where('subject_id', '=', versionId)
    .executeTakeFirst()
  return row?.generation ?? 0
}

/** Returns the fingerprint of a completed space: spaces with equal fingerprints hold the same values. */
export const fingerprintOf = (space: ModelSpace): string => hash('sha256', identityOfSpace(space))

/** Returns the digest of a model, over the paths and digests of its files. */
export const weightsDigest = (files: Parameters<typeof identityOfFiles>[0]): string =>
  hash('sha256', identityOfFiles(files))
