import { createHash, randomBytes } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { TOKEN_PREFIX } from '../../../domain/token-prefixes.ts'
import type { NodeInventory, NodeSharing } from '../../../schemas/nodes/node.ts'
import type { Database } from '../../tables.ts'
import type { NodeRow } from '../../tables/nodes.ts'
import { bumpCache } from '../platform/cache-versions.ts'

const TOKEN_TTL_HOURS = 24
const digest = (text: string) => createHash('sha256').update(text).digest()

/** Creates a one-time token with which one machine may join for an account; only its hash is stored. */
export async function createNodeToken(
  db: Kysely<Database>,
  { accountId, sharing }: { accountId: string; sharing: NodeSharing },
): Promise<string> {
  const token = `${TOKEN_PREFIX.nodeToken}${randomBytes(24).toString('base64url')}`
  await db
    .insertInto('node_token')
    .values({
      token_hash: digest(token),
      account_id: accountId,
      sharing,
      expires_at: sql<Date>`now() + make_interval(hours => ${TOKEN_TTL_HOURS})`,
    })
    .execute()
  return token
}

export interface JoinRequest {
  token: string
  name: string
  publicKey: Buffer
  inventory: NodeInventory
}

/**
 * Redeems a token for a node. The same key with the same token yields the same node again, so a node that
 * crashes after the join but before it stores the response can join again. Undefined when the token is unknown,
 * expired, or redeemed with another key.
 */
export async function joinNode(
  trx: Transaction<Database>,
  joining: JoinRequest,
): Promise<NodeRow | undefined> {
  const tokenHash = digest(joining.token)
  const token = await trx
    .selectFrom('node_token')
    .selectAll()
    .select(sql<boolean>`expires_at < now()`.as('has_expired'))
    .where('token_hash', '=', tokenHash)
    .forUpdate()
    .executeTakeFirst()
  if (!token) return undefined
  if (token.node_id) return findJoined(trx, token.node_id, joining.publicKey)
  if (token.has_expired) return undefined

  const node = await trx
    .insertInto('node')
    .values({
      id: newId(),
      account_id: token.account_id,
      name: joining.name,
      public_key: joining.publicKey,
      status: 'active',
      sharing: token.sharing,
      hardware: joining.inventory.hardware,
      inventory: JSON.stringify(joining.inventory),
      runtime_version: joining.inventory.version,
    })
    .onConflict((oc) => oc.column('public_key').doNothing())
    .returningAll()
    .executeTakeFirst()
  if (!node) return undefined
  await trx
    .updateTable('node_token')
    .set({ node_id: node.id, used_at: sql<Date>`now()` })
    .where('token_hash', '=', tokenHash)
    .execute()
  return node
}

const findJoined = (trx: Transaction<Database>, nodeId: string, publicKey: Buffer) =>
  trx
    .selectFrom('node')
    .selectAll()
    .where('id', '=', nodeId)
    .where('public_key', '=', publicKey)
    .where('status', '!=', 'removed')
    .executeTakeFirst()

/** Returns the public key that verifies a node's signatures; it never changes. */
export async function findNodeKey(
  db: Kysely<Database>,
  nodeId: string,
): Promise<{ publicKey: Buffer; accountId: string } | undefined> {
  const row = await db
    .selectFrom('node')
    .select(['public_key', 'account_id'])
    .where('id', '=', nodeId)
    .executeTakeFirst()
  return row && { publicKey: row.public_key, accountId: row.account_id }
}

/** Stores a signature; false when any gateway has seen it before, or the node has been removed. */
export async function acceptSignature(
  db: Kysely<Database>,
  { nodeId, digest: seen, expiresAt }: { nodeId: string; digest: Buffer; expiresAt: Date },
): Promise<boolean> {
  const { rows } = await sql`
    insert into node_signature_seen (digest, expires_at)
    select ${seen}::bytea, ${expiresAt}::timestamptz from node where id = ${nodeId}::uuid and status <> 'removed'
    on conflict do nothing
    returning 1
  `.execute(db)
  return rows.length === 1
}

/**
 * Returns whether this process is the node's current one. A process that has just started replaces any other, and a
 * replaced process never becomes current again.
 */
export async function isCurrentInstance(
  db: Kysely<Database>,
  nodeId: string,
  { instanceId, isStart }: { instanceId: string; isStart: boolean },
): Promise<boolean> {
  if (isStart) {
    await db
      .updateTable('node')
      .set({ instance_id: instanceId })
      .where('id', '=', nodeId)
      .where((eb) => eb.or([eb('instance_id', 'is', null), eb('instance_id', '!=', instanceId)]))
      .execute()
    return true
  }
  const row = await db.selectFrom('node').select('instance_id').where('id', '=', nodeId).executeTakeFirst()
  return row?.instance_id === instanceId
}

/** Returns whether a node was removed from the pool. */
export async function isRemoved(db: Kysely<Database>, nodeId: string): Promise<boolean> {
  const row = await db.selectFrom('node').select('status').where('id', '=', nodeId).executeTakeFirst()
  return row?.status === 'removed'
}

/** Deletes signatures whose timestamp would now be rejected. */
export async function forgetSignatures(db: Kysely<Database>): Promise<void> {
  await db
    .deleteFrom('node_signature_seen')
    .where('expires_at', '<', sql<Date>`now()`)
    .execute()
}

/** Keys of the models that the platform pins on a node. */
export const pinned = sql<
  string[]
>`array(select model_key from warm_pin where node_id = node.id and retiring_since is null order by model_key)`.as(
  'pinned',
)

/** Keys of the models that a node is to unload. */
const retiring = sql<
  string[]
>`array(select model_key from warm_pin where node_id = node.id and retiring_since is not null order by model_key)`.as(
  'retiring',
)

/**
 * The idle timeouts, in seconds, of the models that the platform ordered a node to load, or whose load on the node it
 * joined; 0 means never, and counts as the longest.
 */
const idleTimeouts = sql<Record<string, number>>`coalesce((
  select jsonb_object_agg(model_key, seconds) from (
    select o.model_key, case when min(s.idle_timeout_s) = 0 then 0 else max(s.idle_timeout_s) end as seconds
    from node_model_order o
    join endpoint e on e.model_key = o.model_key and e.deleted_at is null
    join endpoint_scaling s on s.endpoint_id = e.id and s.idle_timeout_s is not null
    where o.node_id = node.id and (node.sharing = 'shared' or e.account_id = node.account_id) group by o.model_key
  ) as timeouts), '{}')`.as('idle_timeouts')

/** Keys of the models that the platform ordered a node to load, or whose load on the node it joined. */
export const ordered = sql<
  string[]
>`array(select model_key from node_model_order where node_id = node.id order by model_key)`.as('ordered')

const DECISIONS = ['id', 'status', 'sharing', pinned, ordered, retiring, idleTimeouts] as const

/** Returns the decisions of operators and the platform about these nodes. */
export function nodeDecisions(db: Kysely<Database>, nodeIds: readonly string[]): Promise<NodeDecision[]> {
  return db.selectFrom('node').select(DECISIONS).where('id', 'in', nodeIds).execute()
}

export type NodeDecision = Pick<NodeRow, 'id' | 'status' | 'sharing'> & {
  pinned: string[]
  ordered: string[]
  retiring: string[]
  idle_timeouts: Record<string, number>
}

/** Finds a node and locks its row until the transaction ends. */
export const lockNode = (trx: Transaction<Database>, nodeId: string): Promise<NodeRow | undefined> =>
  trx.selectFrom('node').selectAll().where('id', '=', nodeId).forNoKeyUpdate().executeTakeFirst()

/**
 * Changes the status of a node; undefined when it is removed or absent. Placement drops a
 * removed node, and its pins end.
 */
export async function moveNode(
  trx: Transaction<Database>,
  nodeId: string,
  status: NodeRow['status'],
): Promise<NodeRow | undefined> {
  const node = await trx
    .updateTable('node')
    .set({ status })
    .where('id', '=', nodeId)
    .where('status', '!=', 'removed')
    .returningAll()
    .executeTakeFirst()
  if (node && status === 'removed') {
    await trx.deleteFrom('node_state').where('node_id', '=', nodeId).execute()
    for (const table of ['warm_pin', 'node_model_order', 'node_model_grant'] as const) {
      await trx.deleteFrom(table).where('node_id', '=', nodeId).execute()
    }
  }
  if (node) await bumpCache(trx, 'node')
  return node
}

/** Sets which accounts a node works for; undefined when it is removed or absent. Its running work is not affected. */
export async function shareNode(
  trx: Transaction<Database>,
  nodeId: string,
  sharing: NodeSharing,
): Promise<NodeRow | undefined> {
  const node = await trx
    .updateTable('node')
    .set({ sharing })
    .where('id', '=', nodeId)
    .where('status', '!=', 'removed')
    .returningAll()
    .executeTakeFirst()
  if (node) await bumpCache(trx, 'node')
  return node
}

/** Stores what a node sends when its link opens; returns the decisions about it. */
export function recordHello(
  db: Kysely<Database>,
  nodeId: string,
  inventory: NodeInventory,
): Promise<NodeDecision | undefined> {
  return db
    .updateTable('node')
    .set({
      inventory: JSON.stringify(inventory),
      hardware: inventory.hardware,
      runtime_version: inventory.version,
      last_seen_at: sql<Date>`now()`,
    })
    .where('id', '=', nodeId)
    .where('status', '!=', 'removed')
    .returning(DECISIONS)
    .executeTakeFirst()
}

/** Returns the URLs of live gateways, in an order that all of them share. */
export async function listGatewayUrls(db: Kysely<Database>): Promise<string[]> {
  const rows = await db
    .selectFrom('gateway')
    .select('base_url')
    .distinct()
    .where('lease_expires_at', '>', sql<Date>`now()`)
    .orderBy('base_url')
    .execute()
  return rows.map(({ base_url }) => base_url)
}

/** Returns the names of nodes by id; a node without a name appears under its id. */
export async function nodeNames(db: Kysely<Database>, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('node').select(['id', 'name']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, name }) => [id, name || id]))
}

/** Returns whether a node has joined and has not been removed. */
export async function hasJoined(db: Kysely<Database>, nodeId: string): Promise<boolean> {
  const row = await db
    .selectFrom('node')
    .select('id')
    .where('id', '=', nodeId)
    .where('status', '!=', 'removed')
    .executeTakeFirst()
  return row !== undefined
}
