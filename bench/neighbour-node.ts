import { newNodeKey, privateKeyFromPem, rawPublicKey, signRequest } from '../platform/signing.ts'

export const INVENTORY = {
  hardware: 'cpu',
  cpus: 1,
  memory_mb: 0,
  ram_mb: 0,
  gpus: [],
  profiles: [],
  train_slots: 0,
  platform: 'linux',
  version: '0.12.0',
}

/** Joins a node that belongs to the attacking account and is controlled by this driver. */
export async function joined(
  made: <T>(path: string, key: string, body: unknown) => Promise<T>,
  { operationsKey, accountId }: { operationsKey: string; accountId: string },
) {
  const key = privateKeyFromPem(newNodeKey().privatePem)
  const token = { account_id: accountId }
  const { node_token } = await made<{ node_token: string }>('/api/v1/admin/node-tokens', operationsKey, token)
  const { node_id: nodeId } = await made<{ node_id: string }>('/api/v1/nodes:join', node_token, {
    name: 'loud',
    public_key: rawPublicKey(key),
    inventory: INVENTORY,
  })
  let last = 0
  return {
    sign(method: string, path: string, body: string) {
      last = Math.max(Date.now(), last + 1)
      return signRequest(key, { method, path, timestamp: last, accountId, nodeId, body })
    },
  }
}
