import type { KeyObject } from 'node:crypto'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { acceptSignature, findNodeKey, isRemoved } from '../../db/repositories/nodes.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import { MAX_SKEW_MS, publicKeyFromRaw, verifyRequest } from '../../platform/signing.ts'
import type { NodeCaller } from '../http/caller.ts'
import type { SignedRequest } from '../services.ts'

interface KnownNode {
  key: KeyObject
  accountId: string
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Checks `X-Node-Signature` (design section 8); a message is taken once, whichever gateway it comes to. */
export class NodeAuthenticator {
  readonly #db: Kysely<Database>
  // Keys never change; whether the node was removed is asked with each signature.
  readonly #known = new LRUCache<string, KnownNode>({ max: 10_000 })

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** Throws `unauthenticated` unless a node that was not removed signed this and it was not seen before. */
  async verify(request: SignedRequest): Promise<NodeCaller> {
    const node = await this.#find(request.nodeId)
    if (!node || node.accountId !== request.accountId)
      throw refused('no node of this account has this id', 'node_unknown')

    const checked = verifyRequest(node.key, request, request.signature)
    if (checked.fault === 'skew') {
      throw refused(`X-Node-Timestamp is more than ${MAX_SKEW_MS / 1000} s away from this gateway's clock`)
    }
    if (checked.fault) throw refused('X-Node-Signature does not fit this request')

    const { nodeId, accountId } = request
    if (!(await acceptSignature(this.#db, { nodeId, ...checked }))) {
      if (await isRemoved(this.#db, nodeId)) throw refused('this node has been removed', 'node_removed')
      throw refused('this signature was used before')
    }
    return { nodeId, accountId }
  }

  /** Whether a node of this id has come to this gateway before; says nothing of who names it now. */
  knows(nodeId: string): boolean {
    return this.#known.has(nodeId)
  }

  async #find(nodeId: string): Promise<KnownNode | undefined> {
    const known = this.#known.get(nodeId)
    if (known) return known
    const row = UUID.test(nodeId) ? await findNodeKey(this.#db, nodeId) : undefined
    const key = row && publicKeyFromRaw(row.publicKey.toString('base64'))
    if (!row || !key) return undefined
    const found = { key, accountId: row.accountId }
    this.#known.set(nodeId, found)
    return found
  }
}

/** `reason` tells a node that no request of its will ever be taken. */
const refused = (message: string, reason?: 'node_removed' | 'node_unknown') =>
  new ApiError('unauthenticated', message, reason && { details: { reason } })
