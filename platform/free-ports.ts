import { randomInt } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import getPort from 'get-port'

/** The range lies below the ephemeral ports, one of which the system may use before the server does. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 100

/** Returns a TCP port that was free a moment ago; for a while get-port returns it to no other caller in this process. */
export const freePort = (host = '127.0.0.1'): Promise<number> =>
  getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, LAST)) })

/** Returns the port in a file where it is free, else another one, which the file has from then on. */
export async function keptPort(file: string, host = '127.0.0.1'): Promise<number> {
  const last = Number(await readFile(file, 'utf8').catch(() => ''))
  if (last >= FIRST && last < LAST && (await getPort({ host, port: last })) === last) return last
  const port = await freePort(host)
  await writeFile(file, `${port}\n`)
  return port
}

/** Returns different TCP ports of 127.0.0.1 that were free a moment ago. */
export const freePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => freePort()))
