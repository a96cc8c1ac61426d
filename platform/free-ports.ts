import { randomInt } from 'node:crypto'
import getPort from 'get-port'

/** Below the ports that systems give to outgoing connections, one of which may take a port before its server does. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 100

/** A TCP port that was free a moment ago; get-port gives it to no other caller in this process for a while. */
export const freePort = (host = '127.0.0.1'): Promise<number> =>
  getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, LAST)) })

/** TCP ports of 127.0.0.1 that were free a moment ago, all different. */
export const freePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => freePort()))
