import { randomInt } from 'node:crypto'
import getPort from 'get-port'

/** The range lies below the ephemeral ports, one of which the system may use before the server does. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 100

/** Returns a TCP port that was free a moment ago; for a while get-port returns it to no other caller in this process. */
export const freePort = (host = '127.0.0.1'): Promise<number> =>
  getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, LAST)) })

/** Returns different TCP ports of 127.0.0.1 that were free a moment ago. */
export const freePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => freePort()))
