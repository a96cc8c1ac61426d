import { createHash, randomBytes } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { NodeInventory, NodeSharing } from '../../../schemas/node.ts'
import type { Database } from '../../tables.ts'
import type { NodeRow } from '../../tables/nodes.ts'
import { bumpCache } from '../platform/cache-versions.ts'

const TOKEN_HOURS = 24
const digest = (text: string) => createHash('sha256').update(text).digest()

/** Makes a one-time token by which one machine may join for an account; only its hash is kept. */
export async function createNodeToken(
  db: Kysely<Database>,
  { accountId, sharing }: { accountId: string; sharing: NodeSharing },
): Promise<string> {
  const token = `hnt_${randomBytes(24).toString('base64url')}`
  await db
    .insertInto('node_token')
    .values({
      token_hash: digest(token),
      account_id: accountId,
      sharing,
      expires_at: sql<Date>`now() + make_interval(hours => ${TOKEN_HOURS})`,
    })
    .execute()
  return token
}

export interface Joining {
  token: string
  name: string
  publicKey: Buffer
  inventory: NodeInventory
}

/**
 * Spends a token on a node. The same key with the same token is the same node again: a crash between the join and the
 * saving of its answer costs nothing. Undefined when the token is unknown, expired or spent on another key.
 */
export async function joinNode(trx: Transaction<Database>, joining: Joining): Promise<NodeRow | undefined> {
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

/** The key by which a node's signatures are checked; it never changes. */
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

/** Remembers a signed message; false when it was seen before on any gateway, or the node has been removed. */
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
 * Whether this process is the one that the node runs as. One that has just started takes the place of any other; nobody who was
 * there before gets it back.
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

/** Whether a node was removed from the pool. */
export async function isRemoved(db: Kysely<Database>, nodeId: string): Promise<boolean> {
  const row = await db.selectFrom('node').select('status').where('id', '=', nodeId).executeTakeFirst()
  return row?.status === 'removed'
}

/** Drops signatures whose timestamp would not pass any more. */
export async function forgetSignatures(db: Kysely<Database>): Promise<void> {
  await db
    .deleteFrom('node_signature_seen')
    .where('expires_at', '<', sql<Date>`now()`)
    .execute()
}

/** Keys of the models that the platform wants kept loaded on a node. */
const pinned = sql<
  string[]
>`array(select model_key from warm_pin where node_id = node.id order by model_key)`.as('pinned')

/** Keys of the models whose load on a node the platform ordered or joined. */
const ordered = sql<
  string[]
>`array(select model_key from node_model_order where node_id = node.id order by model_key)`.as('ordered')

/** What operators and the platform have decided about these nodes. */
export function nodeDecisions(db: Kysely<Database>, nodeIds: readonly string[]): Promise<NodeDecision[]> {
  return db
    .selectFrom('node')
    .select(['id', 'status', 'sharing', pinned, ordered])
    .where('id', 'in', nodeIds)
    .execute()
}

export type NodeDecision = Pick<NodeRow, 'id' | 'status' | 'sharing'> & {
  pinned: string[]
  ordered: string[]
}

/** A page of nodes with what each last reported, newest first. */
export function listNodes(
  db: Kysely<Database>,
  { before, limit }: { before?: string | undefined; limit: number },
) {
  return db
    .selectFrom('node')
    .leftJoin('node_state', 'node_state.node_id', 'node.id')
    .selectAll('node')
    .select(['node_state.snapshot', 'node_state.updated_at', ordered])
    .where('node.status', '!=', 'removed')
    .$if(before !== undefined, (qb) => qb.where('node.id', '<', before!))
    .orderBy('node.id', 'desc')
    .limit(limit)
    .execute()
}

/** Moves a node; undefined when it is removed or absent. Placement forgets one that is removed, and it keeps nothing warm. */
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

/** Decides whose work a node is given; undefined when it is removed or absent. What it has at work ends as it would. */
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

/** What a node says of itself when its link opens; gives back what was decided meanwhile. */
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
    .returning(['id', 'status', 'sharing', pinned, ordered])
    .executeTakeFirst()
}

/** Addresses of the gateways that are alive, in an order all agree on. */
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
