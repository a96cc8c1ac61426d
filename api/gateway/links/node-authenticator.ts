import type { KeyObject } from 'node:crypto'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import * as nodeRepository from '../../../db/repositories/nodes/nodes.ts'
import type { Database } from '../../../db/tables.ts'
import { ApiError } from '../../../domain/errors.ts'
import { isCanonicalUuid } from '../../../domain/uuid.ts'
import { MAX_SKEW_MS, publicKeyFromRaw, sha256Hex, verifyRequest } from '../../../platform/signing.ts'
import type { NodeCaller } from '../../http/caller.ts'
import { RateLimiter } from '../../http/rate-limit.ts'

/** The signed parts of a node's request, as received. */
export interface SignedRequest {
  method: string
  /** Path and query as on the request line. */
  path: string
  timestamp: number
  accountId: string
  nodeId: string
  signature: string
  /** The digest that the sender declares; nodes before 0.12 send none. */
  bodySha256: string | undefined
  body: Buffer
}

interface NodeIdentity {
  key: KeyObject
  accountId: string
}

/** Limits the rate and the burst of database look-ups for unknown node ids; known ids don't need a look-up. */
const UNKNOWN_IDS = { perSecond: 50, burst: 500 }
const ANYBODY = ''
/** Unknown ids are safe to cache, because a node learns its id only after it is stored. */
const UNKNOWN = { max: 10_000, ttl: 10_000 }

/** Verifies `X-Node-Signature`. A signed message is accepted only once across all gateways. */
export class NodeAuthenticator {
  readonly #db: Kysely<Database>
  // Keys never change. Each signature check also checks whether the node was removed.
  readonly #known = new LRUCache<string, NodeIdentity>({ max: 10_000 })
  readonly #unknown = new LRUCache<string, true>(UNKNOWN)
  readonly #questions = new RateLimiter(UNKNOWN_IDS)

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Throws `unauthenticated` unless an existing node signed the request and the signature is new. */
  async verify(request: SignedRequest): Promise<NodeCaller> {
    const node = await this.#nodeOf(request)
    const bodySha256 = sha256Hex(request.body)
    if (request.bodySha256 !== undefined && request.bodySha256 !== bodySha256) {
      throw refused('X-Node-Body-SHA256 does not match the body')
    }
    const checked = signatureOf(node, { ...request, bodySha256 })

    const { nodeId, accountId } = request
    if (!(await nodeRepository.acceptSignature(this.#db, { nodeId, ...checked }))) {
      if (await nodeRepository.isRemoved(this.#db, nodeId))
        throw refused('this node has been removed', 'node_removed')
      throw refused('this signature was already used')
    }
    return { nodeId, accountId }
  }

  /**
   * Returns the node that a request claims to come from. Throws `unauthenticated` if the node is unknown, the request
   * is too old, or the signature doesn't match the declared body digest. Without a declared digest, `verify` checks the
   * signature once the body has arrived.
   */
  async checkHead(request: Omit<SignedRequest, 'body'>): Promise<NodeCaller> {
    const node = await this.#nodeOf(request)
    const { bodySha256, nodeId, accountId, timestamp } = request
    if (bodySha256 !== undefined) signatureOf(node, { ...request, bodySha256 })
    else if (!(Math.abs(Date.now() - timestamp) <= MAX_SKEW_MS)) throw tooOld()
    return { nodeId, accountId }
  }

  async #nodeOf({ nodeId, accountId }: Pick<SignedRequest, 'nodeId' | 'accountId'>): Promise<NodeIdentity> {
    const node = await this.#find(nodeId)
    if (!node || node.accountId !== accountId)
      throw refused('no node of this account has this id', 'node_unknown')
    return node
  }

  async #find(nodeId: string): Promise<NodeIdentity | undefined> {
    const known = this.#known.get(nodeId)
    if (known) return known
    if (!isCanonicalUuid(nodeId) || this.#unknown.has(nodeId)) return undefined
    this.#questions.take(ANYBODY, [])
    const row = await nodeRepository.findNodeKey(this.#db, nodeId)
    if (!row) this.#unknown.set(nodeId, true)
    const key = row && publicKeyFromRaw(row.publicKey.toString('base64'))
    if (!row || !key) return undefined
    const found = { key, accountId: row.accountId }
    this.#known.set(nodeId, found)
    return found
  }
}

function signatureOf(
  { key }: NodeIdentity,
  request: Omit<SignedRequest, 'body'> & { bodySha256: string },
): { digest: Buffer; expiresAt: Date } {
  const checked = verifyRequest(key, request, request.signature)
  if (checked.fault === 'skew') throw tooOld()
  if (checked.fault) throw refused('X-Node-Signature does not match this request')
  return checked
}

const tooOld = () =>
  refused(`X-Node-Timestamp is more than ${MAX_SKEW_MS / 1000} s away from this gateway's clock`)
/** `reason` informs the node that we will never accept any of its requests. */
const refused = (message: string, reason?: 'node_removed' | 'node_unknown') =>
  new ApiError('unauthenticated', message, reason && { details: { reason } })
