import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { generate } from 'selfsigned'
import { verifyWebhook } from '../platform/webhook-signature.ts'
import { filled, httpStatus, port as portNumber, signingSecret } from './arguments.ts'
import { cliConfig } from './cli-config.ts'
import { CliError, usageError } from './cli-error.ts'
import { printStatus, printLine } from './print.ts'

const CERTIFICATE_DAYS = 365
const MAX_BODY_BYTES = 1024 * 1024

interface ListenOptions {
  port: number
  host: string
  secret: string[]
  cert?: string
  key?: string
  http?: boolean
  answer: number
}

interface Event {
  id?: string
  type?: string
  data?: { verification_challenge?: string; resource?: { id?: string; status?: string } }
}

/** Receives webhooks, to try them out. */
export function listenCommand(command: Command): void {
  command
    .option('--port <port>', 'port to listen on', portNumber, 8443)
    .option('--host <address>', 'address to listen on', filled, '127.0.0.1')
    .option(
      '--secret <whsec_...>',
      'verify signatures with this secret (repeat the option during a rotation)',
      signingSecret,
      [],
    )
    .option('--cert <file>', 'certificate (default: one for localhost, created once)')
    .option('--key <file>', 'private key of the certificate')
    .option('--http', 'serve plain HTTP, behind a proxy that terminates TLS')
    .option('--answer <status>', 'status to return for each event, to see retries', httpStatus, 204)
    .action(listen)
}

async function listen(options: ListenOptions): Promise<void> {
  const { port, host, http = false } = options
  if (http && (options.cert ?? options.key) !== undefined)
    throw usageError('--http accepts neither --cert nor --key: a proxy terminates TLS')
  const tls = http ? undefined : await certificateFor(options)
  const seen = new Set<string>()
  const take = (req: IncomingMessage, res: ServerResponse) => void receive(req, res, { options, seen })
  const server = tls ? secureServer(tls, take) : createHttpServer(take)
  server.once('error', (err: NodeJS.ErrnoException) => {
    const { message, exitCode } = whyNotListening(err, { port, host })
    printStatus(`hearth: ${message}`)
    process.exitCode = exitCode
  })
  server.listen(port, host, () => {
    const { port: bound } = server.address() as AddressInfo
    printLine(`Listening on ${http ? 'http' : 'https'}://localhost:${bound}/`)
    if (tls?.file) {
      const allow = `127.0.0.0/8:${bound},::1/128:${bound}`
      printLine(
        `To deliver here, start a platform on this machine with\n  HEARTH_FEATURES=webhooks HEARTH_EGRESS_ALLOW=${allow} NODE_EXTRA_CA_CERTS=${tls.file} npm start`,
      )
    }
    if (options.secret.length === 0) printLine('Signatures are not verified: no --secret.')
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      server.close()
      server.closeAllConnections()
    })
  }
}

function secureServer(tls: { cert: Buffer; key: Buffer }, take: RequestListener) {
  try {
    return createHttpsServer(tls, take)
  } catch (err) {
    throw usageError(
      `invalid certificate or key: ${(err as Error).message}; pass both as PEM files with --cert and --key`,
    )
  }
}

function whyNotListening(
  { code, message }: NodeJS.ErrnoException,
  { port, host }: { port: number; host: string },
): CliError {
  if (code === 'EADDRINUSE')
    return new CliError(`port ${port} on ${host} is in use; choose another with --port`)
  if (code === 'EACCES')
    return usageError(`port ${port} on ${host} is not allowed for this user; choose another with --port`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return usageError(`${host} is not an address of this machine; choose another with --host`)
  return new CliError(message)
}

async function receive(
  req: IncomingMessage,
  res: ServerResponse,
  { options, seen }: { options: ListenOptions; seen: Set<string> },
): Promise<void> {
  try {
    const body = await readBody(req)
    const isSigned =
      options.secret.length > 0
        ? verifyWebhook(options.secret, String(req.headers['service-signature']), body)
        : undefined
    const event = isSigned === false ? undefined : (JSON.parse(body.toString()) as Event)
    if (!event) {
      printLine(`rejected: invalid signature (attempt ${String(req.headers['service-attempt'])})`)
      res.writeHead(400).end()
      return
    }
    printDelivery(event, {
      attempt: String(req.headers['service-attempt']),
      isSigned,
      isRepeat: seen.has(event.id ?? ''),
    })
    seen.add(event.id ?? '')
    const challenge = event.data?.verification_challenge
    if (challenge === undefined) res.writeHead(options.answer).end()
    else {
      res.setHeader('service-verification-challenge', challenge)
      res.end(JSON.stringify({ verification_challenge: challenge }))
    }
  } catch (err) {
    printLine(`rejected: ${(err as Error).message}`)
    res.writeHead(400).end()
  }
}

function printDelivery(
  { id, type, data }: Event,
  { attempt, isSigned, isRepeat }: { attempt: string; isSigned: boolean | undefined; isRepeat: boolean },
): void {
  const marks = [
    `attempt ${attempt}`,
    ...(isSigned ? ['signature verified'] : []),
    ...(isRepeat ? ['seen before'] : []),
    ...(data?.verification_challenge === undefined ? [] : ['challenge answered']),
  ]
  const { resource } = data ?? {}
  // Any client that can reach the port may have sent this; `say` strips control characters.
  printLine(`${type} ${id} ${resource?.id ?? ''} ${resource?.status ?? ''} (${marks.join(', ')})`)
}

async function readBody(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Error('the body is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function fileOf(option: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (err) {
    throw usageError(`${option} ${path} cannot be read: ${(err as NodeJS.ErrnoException).code}`)
  }
}

/**
 * Returns the certificate given in the options, or one for `localhost`. The latter is created once and stored, so a
 * platform can be configured to trust it.
 */
async function certificateFor({
  cert,
  key,
}: ListenOptions): Promise<{ cert: Buffer; key: Buffer; file?: string }> {
  if ((cert === undefined) !== (key === undefined)) throw usageError('pass --cert and --key together')
  if (cert !== undefined && key !== undefined)
    return { cert: fileOf('--cert', cert), key: fileOf('--key', key) }

  const folder = resolve(join(cliConfig().HEARTH_DATA_DIR, 'listen'))
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  if (!existsSync(certFile)) {
    const made = await generate([{ name: 'commonName', value: 'hearth listen' }], {
      keyType: 'ec',
      notAfterDate: new Date(Date.now() + CERTIFICATE_DAYS * 86_400_000),
      extensions: [
        { name: 'basicConstraints', cA: true },
        { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] },
      ],
    })
    mkdirSync(folder, { recursive: true })
    writeFileSync(keyFile, made.private, { mode: 0o600 })
    writeFileSync(certFile, made.cert)
  }
  return { cert: readFileSync(certFile), key: readFileSync(keyFile), file: certFile }
}
