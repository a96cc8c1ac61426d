import { createHash } from 'node:crypto'
import { type Dispatcher, request } from 'undici'
import { proxyDispatcher } from '../proxy.ts'
import {
  asNumber,
  asRecord,
  HubError,
  type HubFile,
  type HubRepoInfo,
  hubRefusal,
  readHubInfo,
} from './answers.ts'

export { HubError, type HubFailure, type HubFile, type HubRepoInfo } from './answers.ts'

const JSON_TIMEOUT_MS = 15_000
const FILE_TIMEOUT_MS = 60_000
const MAX_JSON_BYTES = 16 * 1024 * 1024
const MAX_REDIRECTS = 5
/** The maximum page size for commits on a hub. */
const COMMITS_PER_PAGE = 1_000
const MAX_COMMIT_PAGES = 5
/** The maximum number of commits that a search goes back. */
export const MAX_COMMITS = COMMITS_PER_PAGE * MAX_COMMIT_PAGES

export interface HubOptions {
  endpoint: string | undefined
  token: string
}

/**
 * The only client of a Hugging Face-compatible hub. Time, size and redirects are bounded, and the token is sent only to
 * the hub itself.
 */
export class HubClient {
  readonly #endpoint: string | undefined
  readonly #token: string

  constructor({ endpoint, token }: HubOptions) {
    this.#endpoint = endpoint?.replace(/\/+$/, '')
    this.#token = token
  }

  get isConfigured(): boolean {
    return this.#endpoint !== undefined && this.#endpoint !== ''
  }

  get hasToken(): boolean {
    return this.#token !== ''
  }

  /** Returns the web page of a repository. */
  pageUrl(repoId: string): string {
    return `${this.#base()}/${repoId}`
  }

  /** Returns the URL of a file, pinned to a revision. */
  fileUrl(repoId: string, revision: string, path: string): string {
    const parts = path.split('/').map(encodeURIComponent).join('/')
    return `${this.#base()}/${repoId}/resolve/${encodeURIComponent(revision)}/${parts}`
  }

  /** Returns the ids of matching repositories, most downloaded first. */
  async search({
    query,
    pipelineTag,
    limit,
  }: {
    query: string
    pipelineTag?: string | undefined
    limit: number
  }) {
    const url = new URL(`${this.#base()}/api/models`)
    url.search = new URLSearchParams({
      search: query,
      sort: 'downloads',
      direction: '-1',
      limit: String(limit),
      ...(pipelineTag !== undefined && { pipeline_tag: pipelineTag }),
    }).toString()
    const { value: found } = await this.#json(url.href)
    if (!Array.isArray(found)) throw new HubError('invalid_answer', 'the hub did not return a list of models')
    return found.flatMap((entry: unknown) => {
      const { id, modelId, downloads } = asRecord(entry)
      const repoId = typeof id === 'string' ? id : modelId
      return typeof repoId === 'string' ? [{ repoId, downloads: asNumber(downloads) ?? 0 }] : []
    })
  }

  /** Returns the current state of a repository, or its state at a commit. */
  async info(repoId: string, revision?: string): Promise<HubRepoInfo> {
    const at = revision === undefined ? '' : `/revision/${encodeURIComponent(revision)}`
    const { value } = await this.#json(`${this.#base()}/api/models/${repoId}${at}?blobs=true`)
    return readHubInfo(repoId, asRecord(value))
  }

  /** Returns whether one commit equals another, or is among the `MAX_COMMITS` before it. */
  async isAncestor(repoId: string, { head, commit }: { head: string; commit: string }): Promise<boolean> {
    if (head === commit) return true
    const home = `${this.#base()}/api/models/${repoId}/commits/${head}`
    let next: string | undefined = `${home}?limit=${COMMITS_PER_PAGE}`
    for (let page = 0; next !== undefined && page < MAX_COMMIT_PAGES; page++) {
      const { value, headers } = await this.#json(next)
      if (!Array.isArray(value))
        throw new HubError('invalid_answer', 'the hub did not return a list of commits')
      if (value.some((entry: unknown) => asRecord(entry)['id'] === commit)) return true
      next = nextPage(headers, next)
    }
    return false
  }

  /** Reads a small file and checks it against the repository's digest. */
  async read(
    repo: Pick<HubRepoInfo, 'repoId' | 'revision'>,
    file: HubFile,
    maxBytes = MAX_JSON_BYTES,
  ): Promise<Buffer> {
    const answer = await this.open(repo.repoId, repo.revision, file.path)
    const bytes = await readAll(answer, maxBytes)
    if (!fits(bytes, file))
      throw new HubError('invalid_answer', `the digest of ${file.path} from the hub does not match`)
    return bytes
  }

  /** Reads the first bytes of a large file without verifying them, because no digest covers only part of a file. */
  async readStart(
    repo: Pick<HubRepoInfo, 'repoId' | 'revision'>,
    path: string,
    most: number,
  ): Promise<Buffer> {
    const answer = await this.open(repo.repoId, repo.revision, path, { range: `bytes=0-${most - 1}` })
    return (await readUpTo(answer, most)).subarray(0, most)
  }

  /** Opens a file, or the part in `range`; the caller must read or dump the body. */
  async open(
    repoId: string,
    revision: string,
    path: string,
    { range, signal }: { range?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<Dispatcher.ResponseData> {
    return this.#follow(this.fileUrl(repoId, revision, path), 'GET', {
      timeoutMs: FILE_TIMEOUT_MS,
      ...(range !== undefined && { headers: { range } }),
      ...(signal && { signal }),
    })
  }

  /** Throws `gated_no_token` or `gated_refused` when the platform may not read this file. */
  async checkAccess(repo: Pick<HubRepoInfo, 'repoId' | 'revision'>, path: string): Promise<void> {
    const answer = await this.#follow(this.fileUrl(repo.repoId, repo.revision, path), 'HEAD', {
      timeoutMs: JSON_TIMEOUT_MS,
    })
    await answer.body.dump()
  }

  #base(): string {
    if (this.#endpoint) return this.#endpoint
    throw new HubError(
      'not_configured',
      'no model hub is configured: an operator must set HEARTH_HUB_ENDPOINT',
    )
  }

  async #json(url: string): Promise<{ value: unknown; headers: Dispatcher.ResponseData['headers'] }> {
    const answer = await this.#follow(url, 'GET', { timeoutMs: JSON_TIMEOUT_MS })
    const bytes = await readAll(answer, MAX_JSON_BYTES)
    try {
      return { value: JSON.parse(bytes.toString('utf8')) as unknown, headers: answer.headers }
    } catch (cause) {
      throw new HubError('invalid_answer', 'the hub did not return JSON', { cause })
    }
  }

  async #follow(
    start: string,
    method: 'GET' | 'HEAD',
    {
      timeoutMs,
      headers,
      signal,
    }: { timeoutMs: number; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Dispatcher.ResponseData> {
    let url = new URL(start)
    const home = url.origin
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const answer = await this.#once(url, method, {
        timeoutMs,
        headers: { ...headers, ...this.#credentials(url, home) },
        signal,
      })
      const { location } = answer.headers
      if (answer.statusCode < 300 || answer.statusCode === 416) return answer
      if (answer.statusCode < 400 && typeof location === 'string') {
        await answer.body.dump()
        url = new URL(location, url)
        if (url.protocol === 'https:' || url.protocol === 'http:') continue
        throw new HubError('invalid_answer', 'the hub redirects to an address that cannot be followed')
      }
      await answer.body.dump()
      throw hubRefusal(answer, this.hasToken)
    }
    throw new HubError('invalid_answer', `the hub redirects more than ${MAX_REDIRECTS} times`)
  }

  /** Returns the headers with credentials; only the hub's own host gets them, not its redirect targets. */
  #credentials(url: URL, home: string): Record<string, string> {
    return this.#token && url.origin === home ? { authorization: `Bearer ${this.#token}` } : {}
  }

  async #once(
    url: URL,
    method: 'GET' | 'HEAD',
    {
      timeoutMs,
      headers,
      signal,
    }: { timeoutMs: number; headers: Record<string, string>; signal: AbortSignal | undefined },
  ): Promise<Dispatcher.ResponseData> {
    try {
      const dispatcher = proxyDispatcher()
      return await request(url, {
        method,
        ...(dispatcher && { dispatcher }),
        headers: { 'user-agent': 'hearth', ...headers },
        headersTimeout: JSON_TIMEOUT_MS,
        bodyTimeout: timeoutMs,
        ...(signal && { signal }),
      })
    } catch (cause) {
      throw new HubError('unavailable', 'the model hub cannot be reached', { cause })
    }
  }
}

/**
 * Returns the next page of a list from its `Link` header. Uses only the query, so that the token is never sent to
 * another host or path.
 */
function nextPage({ link }: Dispatcher.ResponseData['headers'], from: string): string | undefined {
  const [, target] = /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(String(link ?? '')) ?? []
  const search = target === undefined ? undefined : URL.parse(target, from)?.search
  if (!search) return undefined
  const url = new URL(from)
  url.search = search
  return url.href
}

async function readAll(answer: Dispatcher.ResponseData, maxBytes: number): Promise<Buffer> {
  const bytes = await readUpTo(answer, maxBytes)
  if (bytes.length > maxBytes) throw new HubError('invalid_answer', "the hub's response is too large")
  return bytes
}

/** Reads until there are more than `most` bytes, and leaves the rest unread. */
async function readUpTo({ body }: Dispatcher.ResponseData, most: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length
      chunks.push(chunk)
      if (size > most) break
    }
  } catch (cause) {
    throw new HubError('unavailable', 'the connection to the model hub was lost', { cause })
  }
  return Buffer.concat(chunks)
}

function fits(bytes: Buffer, { sha256, blobId, sizeBytes }: HubFile): boolean {
  if (bytes.length !== sizeBytes) return false
  if (sha256 !== undefined) return createHash('sha256').update(bytes).digest('hex') === sha256
  if (blobId === undefined) return true
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex') === blobId
}
