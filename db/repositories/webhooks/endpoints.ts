import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { Database } from '../../tables.ts'
import type { WebhookEndpointRow, WebhookSecretRow } from '../../tables/webhooks.ts'

export type NewWebhookEndpoint = Pick<
  WebhookEndpointRow,
  'id' | 'account_id' | 'name' | 'url_sealed' | 'url_origin' | 'event_types' | 'secret_hint'
>

/**
 * Counts the webhook endpoints of an account and locks the count, so that endpoints added concurrently are counted one
 * after the other.
 */
export async function countWebhookEndpoints(trx: Transaction<Database>, accountId: string): Promise<number> {
  await trx
    .selectFrom('account')
    .select('id')
    .where('id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  const { count } = await trx
    .selectFrom('webhook_endpoint')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Adds an endpoint that is waiting for verification. */
export function insertWebhookEndpoint(
  trx: Transaction<Database>,
  endpoint: NewWebhookEndpoint,
): Promise<WebhookEndpointRow> {
  return trx
    .insertInto('webhook_endpoint')
    .values({ ...endpoint, verification_status: 'pending_verification' })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export function findWebhookEndpoint(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<WebhookEndpointRow | undefined> {
  return ofAccount(db, accountId).where('id', '=', id).executeTakeFirst()
}

/** Locks an endpoint against other changes; events and deliveries to it can still be written. */
export function lockWebhookEndpoint(
  trx: Transaction<Database>,
  accountId: string,
  id: string,
): Promise<WebhookEndpointRow | undefined> {
  return ofAccount(trx, accountId).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

/**
 * Locks endpoints in the order of their ids, always before their verifications and deliveries, and returns the
 * current version of each URL.
 */
export async function lockDestinations(
  trx: Transaction<Database>,
  ids: readonly string[],
): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await trx
    .selectFrom('webhook_endpoint')
    .select(['id', 'destination_version'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  return new Map(rows.map(({ id, destination_version }) => [id, destination_version]))
}

/** Lists the webhook endpoints of an account, newest first. */
export function listWebhookEndpoints(
  db: Kysely<Database>,
  accountId: string,
  { before, limit }: { before: string | undefined; limit: number },
): Promise<WebhookEndpointRow[]> {
  let query = ofAccount(db, accountId).orderBy('id', 'desc').limit(limit)
  if (before !== undefined) query = query.where('id', '<', before)
  return query.execute()
}

/** Changes a locked endpoint; every change creates a new revision. */
export function updateWebhookEndpoint(
  trx: Transaction<Database>,
  id: string,
  changes: Partial<
    Omit<
      WebhookEndpointRow,
      | 'id'
      | 'account_id'
      | 'revision'
      | 'destination_version'
      | 'verification_failure'
      | 'created_at'
      | 'updated_at'
    >
  >,
  { newDestination = false }: { newDestination?: boolean } = {},
): Promise<WebhookEndpointRow> {
  return trx
    .updateTable('webhook_endpoint')
    .set({
      ...changes,
      revision: sql<number>`revision + 1`,
      updated_at: sql<Date>`now()`,
      ...(newDestination && {
        destination_version: sql<number>`destination_version + 1`,
        verification_failure: null,
      }),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Adds a signing secret. */
export async function insertWebhookSecret(
  trx: Transaction<Database>,
  secret: Pick<WebhookSecretRow, 'id' | 'endpoint_id' | 'sealed'>,
): Promise<void> {
  await trx.insertInto('webhook_secret').values(secret).execute()
}

/**
 * Makes `current` the only secret without an expiry. The previous secret signs until `until`, and older ones no longer
 * sign; a revocation ends all of them immediately.
 */
export async function retireWebhookSecrets(
  trx: Transaction<Database>,
  endpointId: string,
  { current, now, until, revoke }: { current: string; now: Date; until: Date; revoke: boolean },
): Promise<void> {
  await trx
    .updateTable('webhook_secret')
    .set({
      expires_at: sql<Date>`case when expires_at is null then ${until}::timestamptz else least(expires_at, ${now}) end`,
      ...(revoke && { revoked: true }),
    })
    .where('endpoint_id', '=', endpointId)
    .where('id', '<>', current)
    .execute()
}

/** Deletes the secrets of a deleted endpoint. */
export async function removeWebhookSecrets(trx: Transaction<Database>, endpointId: string): Promise<void> {
  await trx.deleteFrom('webhook_secret').where('endpoint_id', '=', endpointId).execute()
}

/** Returns the secrets that may sign at this time, newest first. */
export function validWebhookSecrets(
  db: Kysely<Database>,
  endpointId: string,
  at: Date,
): Promise<WebhookSecretRow[]> {
  return db
    .selectFrom('webhook_secret')
    .selectAll()
    .where('endpoint_id', '=', endpointId)
    .where('revoked', '=', false)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', at)]))
    .orderBy('id', 'desc')
    .execute()
}

/** Returns every secret of these endpoints that was not revoked, newest first, for current and for pinned signatures. */
export function signingSecrets(
  db: Kysely<Database>,
  endpointIds: readonly string[],
): Promise<WebhookSecretRow[]> {
  return db
    .selectFrom('webhook_secret')
    .selectAll()
    .where('endpoint_id', 'in', endpointIds)
    .where('revoked', '=', false)
    .orderBy('id', 'desc')
    .execute()
}

/** Opens the verification of a URL's version; earlier ones no longer count. */
export async function openVerification(
  trx: Transaction<Database>,
  verification: {
    endpointId: string
    accountId: string
    urlOrigin: string
    version: number
    challenge: string
    windowEndsAt: Date
  },
): Promise<void> {
  const { endpointId, accountId, urlOrigin, version, challenge, windowEndsAt } = verification
  await supersedeVerifications(trx, endpointId)
  await trx
    .insertInto('webhook_verification')
    .values({
      endpoint_id: endpointId,
      account_id: accountId,
      url_origin: urlOrigin,
      destination_version: version,
      event_id: newId(),
      challenge,
      status: 'pending',
      window_ends_at: windowEndsAt,
    })
    .execute()
}

/** The challenges of an account in the last hour, and the time since the last one. */
export interface ChallengeCounts {
  /** Challenges to all endpoints of the account. */
  ofAccount: number
  /** Challenges to this origin, for any of the account's endpoints. */
  ofOrigin: number
  /** Seconds since the last challenge of this endpoint; null if there was none in the last hour. */
  sinceLastS: number | null
}

/** Counts the challenges of the last hour, by the database clock. */
export async function countChallenges(
  trx: Transaction<Database>,
  { accountId, endpointId, urlOrigin }: { accountId: string; endpointId: string; urlOrigin: string },
): Promise<ChallengeCounts> {
  const { rows } = await sql<ChallengeCounts>`
    select count(*)::int as "ofAccount",
      (count(*) filter (where url_origin = ${urlOrigin}))::int as "ofOrigin",
      extract(epoch from now() - max(created_at) filter (where endpoint_id = ${endpointId}))::float as "sinceLastS"
    from webhook_verification
    where account_id = ${accountId} and created_at > now() - interval '1 hour'`.execute(trx)
  return rows[0] ?? { ofAccount: 0, ofOrigin: 0, sinceLastS: null }
}

/** Ends pending verifications. */
export async function supersedeVerifications(trx: Transaction<Database>, endpointId: string): Promise<void> {
  await trx
    .updateTable('webhook_verification')
    .set({ status: 'superseded' })
    .where('endpoint_id', '=', endpointId)
    .where('status', '=', 'pending')
    .execute()
}

const ofAccount = (db: Kysely<Database>, accountId: string) =>
  db
    .selectFrom('webhook_endpoint')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
