import { createServer } from 'node:net'
import { freePort } from '../platform/free-ports.ts'
import { type ListenAddress, listenError } from '../platform/listening.ts'

/**
 * Returns the port of the API: the requested one, or any free one for 0. Throws a `ConfigError` when it is not
 * available.
 */
export async function apiPort(wanted: ListenAddress): Promise<number> {
  try {
    return await (wanted.port === 0 ? freePort(wanted.host) : tryListening(wanted))
  } catch (err) {
    throw listenError(err, wanted)
  }
}

function tryListening({ host, port }: ListenAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, host, () => server.close(() => resolve(port)))
  })
}
