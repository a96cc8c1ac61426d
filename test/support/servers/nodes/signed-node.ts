import * as dispatchRepository from '../../../../db/repositories/nodes/dispatches.ts'
import { newId } from '../../../../domain/ids.ts'
import { newNodeKey, privateKeyFromPem, rawPublicKey, signRequest } from '../../../../platform/signing.ts'
import type { NodeSharing } from '../../../../schemas/nodes/node.ts'
import type { Answer, AnyBody, TestApi } from '../api.ts'

/** A joined node that the test itself controls. */
export interface SignedNode {
  readonly nodeId: string
  readonly accountId: string
  /** Sends an object as JSON, and a string unchanged. */
  post<B = AnyBody>(path: string, body?: object | string): Promise<Answer<B>>
  get<B = AnyBody>(path: string): Promise<Answer<B>>
  /** Returns the headers of a signed request. */
  sign(method: string, path: string): object
}

interface SignedNodeOptions {
  accountId?: string
  sharing?: NodeSharing
  /** True (the default) to record each task or job that the node claims as dispatched by the gate. */
  isHanded?: boolean
}

const CLAIM = /\/(task|job)s\/([0-9a-f-]{36})\/claim$/

let lastTimestamp = 0

/** Adds a node row with its own key, and signs requests with that key. */
export async function signedNode(
  api: TestApi,
  name = 'node',
  { accountId = newId(), sharing = 'shared', isHanded = true }: SignedNodeOptions = {},
): Promise<SignedNode> {
  const key = privateKeyFromPem(newNodeKey().privatePem)
  const nodeId = newId()
  const { db } = api.database
  await db
    .insertInto('account')
    .values({ id: accountId, name: 'owner' })
    .onConflict((oc) => oc.doNothing())
    .execute()
  await db
    .insertInto('node')
    .values({
      id: nodeId,
      account_id: accountId,
      name,
      public_key: Buffer.from(rawPublicKey(key), 'base64'),
      status: 'active',
      sharing,
      hardware: 'cpu',
      inventory: '{}',
      runtime_version: '0.11.0',
    })
    .execute()
  const sign = (method: string, path: string, body: string) => {
    lastTimestamp = Math.max(Date.now(), lastTimestamp + 1)
    return signRequest(key, { method, path, timestamp: lastTimestamp, accountId, nodeId, body })
  }
  return {
    nodeId,
    accountId,
    sign: (method, path) => sign(method, path, ''),
    get: (path) => api.call('GET', path, { headers: { ...sign('GET', path, '') } }),
    async post(path, body = {}) {
      const [, kind, subjectId] = CLAIM.exec(path) ?? []
      if (isHanded && subjectId)
        await dispatchRepository.recordDispatch(db, {
          kind: kind === 'job' ? 'job' : 'task',
          subjectId,
          nodeId,
        })
      const raw = typeof body === 'string' ? body : JSON.stringify(body)
      const headers = { 'content-type': 'application/json', ...sign('POST', path, raw) }
      return api.call('POST', path, { raw, headers })
    },
  }
}
