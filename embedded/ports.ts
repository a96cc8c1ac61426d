import { createServer } from 'node:net'
import { UsageError } from './options.ts'

/** TCP ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const probes = await Promise.all(Array.from({ length: count }, () => listen(0)))
  return Promise.all(probes.map((probe) => probe.close()))
}

/** The port of the API: the one asked for, or any free one for 0. */
export async function apiPort(wanted: number): Promise<number> {
  try {
    return await (await listen(wanted)).close()
  } catch (cause) {
    throw new UsageError(
      `Port ${wanted} is taken by another program. Stop it, or choose another with HEARTH_PORT (0 takes any free one).`,
      { cause },
    )
  }
}

function listen(port: number): Promise<{ close(): Promise<number> }> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      const taken = typeof address === 'object' && address ? address.port : port
      resolve({ close: () => new Promise((closed) => server.close(() => closed(taken))) })
    })
  })
}
