import { type KeyObject, randomUUID } from 'node:crypto'
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import pRetry, { AbortError } from 'p-retry'
import { request } from 'undici'
import {
  newNodeKey,
  privateKeyFromPem,
  rawPublicKey,
  signRequest,
  type SignatureHeaders,
} from '../../platform/signing.ts'
import type { JoinNode, NodeInventory, NodeJoined } from '../../schemas/nodes/node.ts'

interface StoredIdentity {
  private_pem: string
  node_id?: string
  account_id?: string
  gateways?: readonly string[]
}

/**
 * Stored separately from the identity. An operator may remove the identity at any time to have the machine join again,
 * and a late list of gateways must not restore it.
 */
const GATEWAYS_FILE = 'gateways.json'

interface StoredGateways {
  node_id: string
  gateways: readonly string[]
}

/** Thrown if a node can't join. Startup fails with its message. */
export class JoinError extends Error {
  override readonly name = 'JoinError'
}

/** This node's identity: its id, account and key. Signs its requests. */
export class Identity {
  readonly nodeId: string
  readonly accountId: string
  readonly gateways: readonly string[]
  readonly #key: KeyObject
  #lastTimestamp = 0

  constructor(stored: {
    private_pem: string
    node_id: string
    account_id: string
    gateways: readonly string[]
  }) {
    this.nodeId = stored.node_id
    this.accountId = stored.account_id
    this.gateways = stored.gateways
    this.#key = privateKeyFromPem(stored.private_pem)
  }

  /**
   * Returns the headers for one request. No two have the same timestamp, so a legitimate repeat is
   * never taken for a replay.
   */
  sign(method: string, path: string, body: Uint8Array | string = ''): SignatureHeaders {
    this.#lastTimestamp = Math.max(Date.now(), this.#lastTimestamp + 1)
    return signRequest(this.#key, {
      method,
      path,
      timestamp: this.#lastTimestamp,
      accountId: this.accountId,
      nodeId: this.nodeId,
      body,
    })
  }
}

export interface JoinOptions {
  dir: string
  gateway: string
  token: string
  name: string
  inventory: NodeInventory
  /** How long to wait for a gateway that doesn't respond yet. */
  waitMs?: number
}

/**
 * Returns the node's identity: from disk, or by joining. The key is on disk before the token is used, so after a crash
 * in between, the node joins again under the same identity.
 */
export async function loadOrJoin(options: JoinOptions): Promise<Identity> {
  const path = join(options.dir, 'identity.json')
  const stored = await readStored(path)
  if (stored?.node_id && stored.account_id) {
    const saved = await readJson<StoredGateways>(join(options.dir, GATEWAYS_FILE))
    const gateways = saved?.node_id === stored.node_id ? saved.gateways : (stored.gateways ?? [])
    return identityOf({ ...stored, gateways })
  }
  if (!options.token) {
    throw new JoinError(
      'This node has not joined yet: set HEARTH_NODE_TOKEN to a token from `hearth node-token create ACCOUNT_ID`',
    )
  }

  const privatePem = stored?.private_pem ?? newNodeKey().privatePem
  if (!stored) await save(path, { private_pem: privatePem })
  const joined = await postJoin(options, rawPublicKey(privateKeyFromPem(privatePem)))
  const complete = { private_pem: privatePem, ...joined }
  await save(path, complete)
  return identityOf(complete)
}

/** Returns the id of the node that joined from this folder; undefined if none has. */
export const joinedAs = async (dir: string): Promise<string | undefined> =>
  (await readStored(join(dir, 'identity.json')))?.node_id

/** Stores the list of gateways for this node's next start. */
export const saveGateways = (
  dir: string,
  { nodeId }: Pick<Identity, 'nodeId'>,
  gateways: readonly string[],
): Promise<void> => save(join(dir, GATEWAYS_FILE), { node_id: nodeId, gateways } satisfies StoredGateways)

const identityOf = ({ private_pem, node_id = '', account_id = '', gateways = [] }: StoredIdentity) =>
  new Identity({ private_pem, node_id, account_id, gateways })

async function postJoin(options: JoinOptions, publicKey: string): Promise<NodeJoined> {
  const { gateway, token, name, inventory, waitMs = 60_000 } = options
  const body = JSON.stringify({ name, public_key: publicKey, inventory } satisfies JoinNode)
  const joinOnce = async () => {
    const answer = await request(`${gateway}/api/v1/nodes:join`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body,
    })
    const text = await answer.body.text()
    if (answer.statusCode < 300) return JSON.parse(text) as NodeJoined
    if (answer.statusCode >= 500) throw new JoinError(`No gateway answers at ${gateway}`)
    throw new AbortError(new JoinError(`The gateway refused the join (${answer.statusCode}): ${text}`))
  }
  return pRetry(joinOnce, { retries: Infinity, minTimeout: 500, factor: 1, maxRetryTime: waitMs })
}

const readStored = (path: string): Promise<StoredIdentity | undefined> => readJson<StoredIdentity>(path)

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw err
  }
}

async function save(path: string, stored: StoredIdentity | StoredGateways): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  // Two gateways may send their lists at the same time.
  const part = `${path}.${randomUUID()}.part`
  await writeFile(part, JSON.stringify(stored, undefined, 2), { mode: 0o600 })
  await chmod(part, 0o600)
  await rename(part, path)
}
