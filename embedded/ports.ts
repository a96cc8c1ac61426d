import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import getPort from 'get-port'
import { type ListenAddress, listenError } from '../platform/listening.ts'

/** Below the ports that systems give to outgoing connections, one of which may take a port before its server does. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 100

/** TCP ports of 127.0.0.1 that were free a moment ago, all different. */
export function freePorts(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, () => freePort('127.0.0.1')))
}

/** The port of the API: the one asked for, or any free one for 0. Throws a `ConfigError` when it cannot be had. */
export async function apiPort(wanted: ListenAddress): Promise<number> {
  try {
    return await (wanted.port === 0 ? freePort(wanted.host) : tryListening(wanted))
  } catch (err) {
    throw listenError(err, wanted)
  }
}

/** A free port, which get-port gives to nobody else of this process for a while. */
const freePort = (host: string): Promise<number> =>
  getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, LAST)) })

function tryListening({ host, port }: ListenAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, host, () => server.close(() => resolve(port)))
  })
}
