import { createWriteStream } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { connect } from 'node:tls'
import type { PublicConnections } from './public-connections.ts'
import { SendError, toSendError } from './public-sender.ts'

const MAX_REDIRECTS = 5
const DOWNLOAD_TIMEOUT_MS = 120_000
const REDIRECTS = new Set([301, 302, 303, 307, 308])

export interface Download {
  owner: string
  /** The path of the file to write. */
  to: string
  maxBytes: number
  signal: AbortSignal
}

/** The file exceeds the size limit. */
export class FileTooLargeError extends Error {
  override readonly name = 'FileTooLargeError'
}

/** Downloads a public file; the egress policy applies to each hop. Throws `SendError` or `FileTooLargeError`. */
export async function downloadPublic(
  connections: PublicConnections,
  url: string,
  { owner, to, maxBytes, signal }: Download,
): Promise<void> {
  const ending = AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS)])
  try {
    const answer = await follow(connections, url, owner, ending)
    await pipeline(answer, atMost(maxBytes), createWriteStream(to), { signal: ending })
  } catch (err) {
    signal.throwIfAborted()
    if (ending.aborted) throw new SendError('timeout', 'no complete response within 120 s', err)
    throw err instanceof FileTooLargeError ? err : toSendError(err)
  }
}

/** Returns a stream that passes bytes through up to a limit and fails beyond it. */
export function atMost(maxBytes: number): Transform {
  let total = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length
      if (total > maxBytes)
        done(new FileTooLargeError(`the file is larger than ${Math.floor(maxBytes / 2 ** 20)} MB`))
      else done(null, chunk)
    },
  })
}

async function follow(
  connections: PublicConnections,
  first: string,
  owner: string,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  let url = first
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const answer = await sendRequest(connections, url, owner, signal)
    const { statusCode = 0, headers } = answer
    if (statusCode === 200) return answer
    answer.destroy()
    if (!REDIRECTS.has(statusCode) || headers.location === undefined)
      throw new SendError('invalid_answer', `the server returned ${statusCode}`)
    if (!URL.canParse(headers.location, url))
      throw new SendError('invalid_answer', 'the server sent a redirect without an address')
    url = new URL(headers.location, url).href
  }
  throw new SendError('invalid_answer', `it redirects more than ${MAX_REDIRECTS} times`)
}

async function sendRequest(
  connections: PublicConnections,
  text: string,
  owner: string,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const plain = text.replace(/#.*$/, '')
  if (!/^https:\/\//i.test(plain)) throw new SendError('url_not_allowed', 'the URL must begin with https://')
  const socket = await connections.openUrl(plain, owner)
  const { hostname: servername, host, pathname, search } = new URL(plain)
  const secure = connect({ socket, servername, ALPNProtocols: ['http/1.1'] })
  return new Promise((resolve, reject) => {
    secure.once('error', reject)
    const asking = request({
      createConnection: () => secure,
      path: pathname + search,
      headers: { host, accept: '*/*', 'user-agent': 'Hearth' },
      signal,
    })
    asking.once('response', resolve)
    asking.once('error', reject)
    asking.end()
  })
}
