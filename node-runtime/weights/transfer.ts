import { createHash, type Hash } from 'node:crypto'
import { constants, createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { type Dispatcher, request } from 'undici'
import { STORAGE_FULL } from '../../domain/errors.ts'
import { isDiskFull } from '../../platform/disk-space.ts'
import { retryAfter } from '../../platform/hub/rate-limit-headers.ts'
import { proxyDispatcher } from '../../platform/proxy.ts'

const TRIES = 5
const FIRST_DELAY_MS = 400
const MAX_REDIRECTS = 5
/** The wait after a 429 without `Retry-After`, and the upper limit for any wait. */
const RATE_LIMIT_DELAY_S = { byDefault: 30, longest: 900 } as const
/** The interval at which a rate-limited wait is reported. */
const REPORT_INTERVAL_S = 15

/** Thrown if the remote side rejects the request permanently; a retry would fail again. */
export class TransferError extends Error {
  override readonly name = 'TransferError'
  /** The status of the response. */
  readonly status: number | undefined

  constructor(message: string, status?: number) {
    super(message)
    this.status = status
  }
}

/** Thrown while the object store has no room for the bytes. */
export class StorageFullError extends Error {
  override readonly name = 'StorageFullError'
}

/** Detects that a store is full: the platform's own store reports a reason; S3 servers return a code in their XML. */
const NO_ROOM = new RegExp(
  `"reason":"${STORAGE_FULL}"|<Code>(?:XMinioStorageFull|XMinioAdminBucketQuotaExceeded|QuotaExceeded)</Code>`,
)

/** The status for a signed URL that has expired or is invalid. */
export const REFUSED = 403

/**
 * Uploads a file to a signed URL; throws `StorageFullError` while the store is full. Retries are safe, because the same
 * bytes go to the same key.
 */
export async function putFile(
  url: string,
  path: string,
  { headers, signal }: { headers: Record<string, string>; signal?: AbortSignal },
): Promise<void> {
  await retrying(signal, async () => {
    // Trainers write these files, and a symlink in their place could point to any file that the node can read.
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
    const { size } = await file.stat()
    const answer = await request(url, {
      method: 'PUT',
      headers: { ...headers, 'content-length': String(size) },
      body: file.createReadStream({ autoClose: false }),
      ...(signal && { signal }),
    })
    const text = await answer.body.text()
    refuse('PUT', answer.statusCode, text)
  })
}

export interface Download {
  url: string
  path: string
  sha256?: string
  /** True for a URL of the model hub, for which requests and redirects use the environment's proxy. */
  isOutside?: boolean | undefined
  signal?: AbortSignal
  /** Requests a new URL for the same bytes after a 403, because signed URLs expire. */
  renew?: () => Promise<string>
  /** Called each time bytes arrive, and once with the size of an earlier partial download. */
  onBytes?: (count: number) => void
  /** Called with the remaining seconds while the remote side limits the rate, and with 0 when the download continues. */
  onLimited?: (seconds: number) => void
}

/** Thrown if the remote side limits the rate. */
class LimitedError extends Error {
  override readonly name = 'LimitedError'
  readonly seconds: number

  constructor(seconds: number) {
    super(`the server is rate limiting for ${seconds} s`)
    this.seconds = seconds
  }
}

/**
 * Downloads a file, resuming a partial download next to it. The file appears at its path only once its digest matches.
 */
export async function downloadFile({
  url,
  path,
  sha256,
  isOutside = false,
  signal,
  renew,
  onBytes,
  onLimited,
}: Download): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const part = `${path}.part`
  let address = url
  /** True from the request for a new URL until that URL succeeds. */
  let isNew = false
  let reported = 0
  const report = (total: number) => {
    if (total > reported) onBytes?.(total - reported)
    reported = Math.max(reported, total)
  }
  const once = async () => {
    const have = await stat(part).then(
      ({ size }) => size,
      () => 0,
    )
    report(have)
    const answer = await following(address, {
      headers: have ? { range: `bytes=${have}-` } : {},
      dispatcher: isOutside ? proxyDispatcher() : undefined,
      signal,
    })
    if (answer.statusCode === REFUSED && renew && !isNew) {
      await answer.body.dump()
      isNew = true
      address = await renew()
      throw new Error('the URL has expired')
    }
    const hash = createHash('sha256')
    if (answer.statusCode === 416) {
      // The part is already complete or useless; the digest decides.
      await answer.body.dump()
      if (sha256) await feed(hash, part)
    } else {
      if (answer.statusCode === 429) {
        await answer.body.dump()
        throw new LimitedError(retryAfter(answer.headers, Date.now()) ?? RATE_LIMIT_DELAY_S.byDefault)
      }
      if (answer.statusCode >= 300) refuse('GET', answer.statusCode, await answer.body.text())
      isNew = false
      let total = answer.statusCode === 206 ? have : 0
      if (sha256 && total > 0) await feed(hash, part)
      const count = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          total += chunk.length
          // Compute the digest on the fly: reading gigabytes again would add seconds to a cold start.
          if (sha256) hash.update(chunk)
          report(total)
          done(null, chunk)
        },
      })
      await pipeline(
        answer.body,
        count,
        createWriteStream(part, { flags: answer.statusCode === 206 ? 'a' : 'w' }),
      )
    }
    if (sha256 && hash.digest('hex') !== sha256) {
      await rm(part, { force: true })
      throw new Error('the downloaded file does not match its declared digest')
    }
    await rename(part, path)
  }
  await retrying(signal, once, onLimited)
}

/** Follows redirects. The request has no credentials that a redirect could leak. */
async function following(
  start: string,
  {
    headers,
    dispatcher,
    signal,
  }: {
    headers: Record<string, string>
    dispatcher: Dispatcher | undefined
    signal: AbortSignal | undefined
  },
): Promise<Dispatcher.ResponseData> {
  let url = start
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const answer = await request(url, {
      headers,
      ...(dispatcher && { dispatcher }),
      ...(signal && { signal }),
    })
    const { location } = answer.headers
    if (answer.statusCode < 300 || answer.statusCode >= 400 || typeof location !== 'string') return answer
    await answer.body.dump()
    url = new URL(location, url).href
  }
  throw new TransferError(`GET of an object was redirected more than ${MAX_REDIRECTS} times`)
}

/** Returns the SHA-256 of a file in hex. */
export async function digestOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  await feed(hash, path, signal)
  return hash.digest('hex')
}

async function feed(hash: Hash, path: string, signal?: AbortSignal): Promise<void> {
  const stream = createReadStream(path, signal && { signal })
  for await (const chunk of stream as AsyncIterable<Buffer>) hash.update(chunk)
}

const INSUFFICIENT_STORAGE = 507

function refuse(method: string, status: number, text: string): void {
  if (status < 300) return
  const isNoRoom = method === 'PUT' && (status === INSUFFICIENT_STORAGE || NO_ROOM.test(text))
  if (isNoRoom) throw new StorageFullError('the object store has no room now')
  // The owner of a run reads this message, so don't leak internal details of a store or hub.
  const message = `the object store responded to ${method} with status ${status}`
  if (status >= 400 && status < 500 && status !== 408 && status !== 429)
    throw new TransferError(message, status)
  throw new Error(message)
}

function retrying(
  signal: AbortSignal | undefined,
  once: () => Promise<void>,
  onLimited?: (seconds: number) => void,
): Promise<void> {
  return pRetry(once, {
    retries: TRIES - 1,
    minTimeout: FIRST_DELAY_MS,
    ...(signal && { signal }),
    shouldRetry: ({ error }) =>
      !(error instanceof TransferError || error instanceof StorageFullError || isDiskFull(error)),
    // A wait that the remote side requested does not count as a failed try.
    shouldConsumeRetry: ({ error }) => !(error instanceof LimitedError),
    async onFailedAttempt({ error, retriesLeft }) {
      if (error instanceof LimitedError && retriesLeft > 0) await waitOut(error.seconds, onLimited, signal)
    },
  })
}

async function waitOut(
  seconds: number,
  report: ((seconds: number) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (
    let left = Math.min(Math.max(1, seconds), RATE_LIMIT_DELAY_S.longest);
    left > 0;
    left -= REPORT_INTERVAL_S
  ) {
    report?.(left)
    await sleep(Math.min(left, REPORT_INTERVAL_S) * 1000, undefined, signal && { signal })
  }
  report?.(0)
}
