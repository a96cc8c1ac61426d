import { randomInt } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import getPort from 'get-port'

/** The range is below the ephemeral ports, which the system may hand out before the server binds one. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 100

/** Returns a TCP port that was free just now; get-port reserves it in this process for a while. */
export const freePort = (host = '127.0.0.1'): Promise<number> =>
  getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, LAST)) })

/** Returns the port stored in a file if it is free; otherwise picks another one and stores it. */
export async function keptPort(file: string, host = '127.0.0.1'): Promise<number> {
  const last = Number(await readFile(file, 'utf8').catch(() => ''))
  if (last >= FIRST && last < LAST && (await getPort({ host, port: last })) === last) return last
  const port = await freePort(host)
  await writeFile(file, `${port}\n`)
  return port
}

/** Returns distinct TCP ports on 127.0.0.1 that were free just now. */
export const freePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => freePort()))
