import { createServer } from 'node:net'
import { type ListenAddress, listenError } from '../platform/listening.ts'

const INNER: ListenAddress = { host: '127.0.0.1', port: 0 }

/** TCP ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const probes = await Promise.all(Array.from({ length: count }, () => listen(INNER)))
  return Promise.all(probes.map((probe) => probe.close()))
}

/** The port of the API: the one asked for, or any free one for 0. Throws a `ConfigError` when it cannot be had. */
export async function apiPort(wanted: ListenAddress): Promise<number> {
  try {
    return await (await listen(wanted)).close()
  } catch (err) {
    throw listenError(err, wanted)
  }
}

function listen({ host, port }: ListenAddress): Promise<{ close(): Promise<number> }> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, host, () => {
      const address = server.address()
      const taken = typeof address === 'object' && address ? address.port : port
      resolve({ close: () => new Promise((closed) => server.close(() => closed(taken))) })
    })
  })
}
