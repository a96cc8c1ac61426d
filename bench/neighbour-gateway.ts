import { randomUUID } from 'node:crypto'
import type { Attack } from './neighbour-attacks.ts'
import type { openSockets } from './neighbour-tools.ts'

interface NoisyTenant {
  accountId: string
  key: string
  endpointId: string
  send: (
    method: string,
    path: string,
    key: string,
    body?: unknown,
    headers?: Record<string, unknown>,
  ) => Promise<{ status: number }>
  sockets: ReturnType<typeof openSockets>
  /** Returns a request of about this many bytes that gets an immediate response. */
  padded: (bytes: number) => () => Promise<number>
}

const NAMES = 60_000
const STAGES = 64

/** Attacks on the gateway's thread, its connections and its database connections. */
export function gatewayAttacks({ accountId, key, endpointId, send, sockets, padded }: NoisyTenant): Attack[] {
  const names = Object.fromEntries(Array.from({ length: NAMES }, (_, nth) => [`k${nth}`, 1]))
  const bytes = JSON.stringify(names).length
  const harmless = padded(bytes)
  const post = async (path: string, body: unknown, headers?: Record<string, unknown>) =>
    (await send('POST', path, key, body, headers)).status
  const mcp = { accept: 'application/json, text/event-stream' }
  const call = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'list_datasets', arguments: names },
  }
  const stages = Array.from({ length: STAGES }, (_, nth) => ({
    stage_id: `s${nth}`,
    endpoint_id: endpointId,
    input: {},
  }))
  const edges = stages.slice(1).map(({ stage_id }, nth) => ({
    from: { stage_id: `s${nth}` },
    to: { stage_id, path: '/x' },
  }))
  const plan = { stages, edges }
  const list = async () => (await send('GET', '/api/builder/v1/endpoints', key)).status
  const head = (path: string) => [`GET ${path} HTTP/1.1`, `x-api-key: ${key}`]

  return [
    { name: 'many names, MCP', perSecond: 5, bytes, act: () => post('/mcp', call, mcp), harmless },
    {
      name: 'many names, infer',
      perSecond: 5,
      bytes,
      act: () => post(`/api/builder/v1/endpoints/${endpointId}/infer`, { input: names }),
      harmless,
    },
    {
      name: 'many names, chat',
      perSecond: 5,
      bytes,
      act: () => post('/v1/chat/completions', { model: endpointId, messages: [], logit_bias: names }),
      harmless,
    },
    {
      name: 'keys created in parallel with idempotency keys',
      perSecond: 50,
      bytes: 100,
      act: () => post('/api/builder/v1/keys', { name: 'loud' }, { 'idempotency-key': randomUUID() }),
      harmless: list,
    },
    {
      name: 'connections held open',
      perSecond: 200,
      bytes: 100,
      act: () => sockets.hold(head('/api/builder/v1/me'), ''),
      harmless: list,
      end: () => sockets.end(),
    },
    {
      name: 'streams held open',
      perSecond: 50,
      bytes: 100,
      act: () => sockets.hold(head('/api/builder/v1/events/stream'), ''),
      harmless: list,
      end: () => sockets.end(),
    },
    {
      name: 'plans of 64 stages',
      perSecond: 40,
      bytes: JSON.stringify(plan).length,
      act: () => post('/api/v1/cohorts:plan', plan, { 'x-account-id': accountId, 'x-user-id': 'u' }),
      harmless: padded(JSON.stringify(plan).length),
    },
  ]
}
