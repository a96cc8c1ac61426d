import { randomUUID } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { AnyBody } from './api.ts'

/** The gateway that issued this URL is gone, so the input is read from any other gateway. */
const INPUT_URL = 'http://127.0.0.1:1/api/v1/tasks/1/input?lease_token=x'

/**
 * A gateway whose database is unavailable for the first calls to these routes, or that returns another error for them.
 */
export async function gatewayAwayFor(
  calls: number,
  routes: RegExp,
  { status = 503, code = 'internal', turn }: { status?: number; code?: string; turn?: string } = {},
) {
  const bodies = new Map<string, AnyBody>()
  let failuresLeft = calls
  const serve: (...of: Parameters<RequestListener>) => Promise<void> = async (req, res) => {
    const url = req.url ?? ''
    const route = url.split('?')[0]!.split(/[/:]/).at(-1)!
    if (req.method === 'POST') bodies.set(route, await json(req))
    const isAway = routes.test(route) && failuresLeft-- > 0
    const body = isAway ? { error: { code, message: 'no database' } } : answers[route]
    res.writeHead(isAway ? status : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
  const server = createServer((req, res) => void serve(req, res)).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const answers: Record<string, object> = {
    claim: {
      lease_token: randomUUID(),
      model_key: 'tool:a',
      input_url: INPUT_URL,
      ...(turn !== undefined && { turn }),
      // The members of a stage's claim.
      input: { text: 'hi' },
      incoming: [],
      outgoing: [],
      timeout_s: 60,
      attempt: 1,
    },
    renew: {},
    input: { text: 'hi' },
    complete: { state: 'completed' },
    fail: { state: 'failed' },
  }
  const close = () => server.close().closeAllConnections()
  return { origin, bodies, [Symbol.dispose]: close }
}
