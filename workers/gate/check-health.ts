import { Client, credentials, Metadata } from '@grpc/grpc-js'
import type { Config } from '../../platform/config.ts'
import { readPem } from '../../platform/config/pem.ts'
import { DIRECT_CHANNEL } from '../../platform/temporal.ts'
import { asBytes } from './upstream.ts'

const HEALTH_TIMEOUT_MS = 3_000
const SERVING = 1

/** Exits with 1 unless a gate with these settings reports that it can serve. */
export async function checkHealth(config: Config): Promise<void> {
  const { HEARTH_GATE_HOST: host, HEARTH_GATE_PORT: port, HEARTH_GATE_TLS_CERT: cert } = config
  const local = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  // The check connects to this machine's address, not to the name in the certificate.
  const channel = cert
    ? credentials.createSsl(readPem('HEARTH_GATE_TLS_CERT', cert), null, null, {
        checkServerIdentity: () => undefined,
      })
    : credentials.createInsecure()
  const client = new Client(`${local.includes(':') ? `[${local}]` : local}:${port}`, channel, DIRECT_CHANNEL)
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const deadline = Date.now() + HEALTH_TIMEOUT_MS
  client.makeUnaryRequest(
    '/grpc.health.v1.Health/Check',
    asBytes,
    asBytes,
    Buffer.alloc(0),
    new Metadata(),
    { deadline },
    (err, value) => (err ? reject(err) : resolve(value ?? Buffer.alloc(0))),
  )
  try {
    if ((await promise)[1] !== SERVING) throw new Error('the gate cannot reach the database')
  } catch (err) {
    process.stderr.write(`${(err as Error).message}\n`)
    process.exitCode = 1
  } finally {
    client.close()
  }
}
