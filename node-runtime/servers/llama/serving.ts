import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { UNUSABLE_STATUS, UnusableWeightsError } from './unusable-weights.ts'

export interface ServerOptions {
  packages: string
  folder: string
  port: number
  socket: string
  threads: number
  concurrency: number
  /** The backend that must compute the model; empty if llama.cpp chooses. */
  gpu: string
  /** The memory in MB for what grows with the context; undefined without a limit. */
  cacheMb: number | undefined
  /** The largest number of tokens in prompt and output together; undefined if the model decides. */
  maxLength: number | undefined
  /** The exchange folder for payloads; empty if there is none. */
  exchange: string
}

/** Parses the command line of a server: see ../README.md. */
export function serverOptions(): ServerOptions {
  const { values } = parseArgs({
    options: {
      packages: { type: 'string', default: '' },
      model: { type: 'string', default: '' },
      port: { type: 'string', default: '0' },
      socket: { type: 'string', default: '' },
      threads: { type: 'string', default: '1' },
      concurrency: { type: 'string', default: '2' },
      gpu: { type: 'string', default: '' },
      'cache-mb': { type: 'string', default: '' },
      'max-model-len': { type: 'string', default: '' },
      exchange: { type: 'string', default: '' },
    },
  })
  const { packages, model, port, socket, threads, concurrency, gpu, exchange } = values
  return {
    packages,
    folder: model,
    port: Number(port),
    socket,
    threads: Number(threads),
    concurrency: Number(concurrency),
    gpu,
    cacheMb: numberOf(values['cache-mb']),
    maxLength: numberOf(values['max-model-len']),
    exchange,
  }
}

const numberOf = (text: string): number | undefined => (text === '' ? undefined : Number(text))

/** Listens, prints the ready line with the facts that the node needs, and serves until SIGTERM. */
export function serve(
  { port, socket }: Pick<ServerOptions, 'port' | 'socket'>,
  listener: RequestListener,
  facts: { concurrency?: number } = {},
): void {
  const server = createServer(listener)
  server.keepAliveTimeout = 600_000
  const announce = (where: object) =>
    process.stdout.write(`${JSON.stringify({ event: 'ready', ...where, ...facts })}\n`)
  if (socket) server.listen(socket, () => announce({ socket }))
  else {
    server.listen(port, '127.0.0.1', () => {
      announce({ port: (server.address() as AddressInfo).port })
    })
  }
  process.once('SIGTERM', () => process.exit(0))
}

/** Sends one complete response. */
export function send(response: ServerResponse, status: number, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
}

/** Reads the body of a request; undefined if it is too large. */
export async function bodyOf(request: IncomingMessage, largest: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > largest) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Exits with a status that distinguishes bad weights from other errors. */
export function endWith(err: unknown): void {
  if (err instanceof UnusableWeightsError) {
    process.stderr.write(`${err.message}\n`)
    process.exitCode = UNUSABLE_STATUS
    return
  }
  process.stderr.write(`The model cannot be served: ${err instanceof Error ? err.message : String(err)}\n`)
  process.exitCode = 1
}
