import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A token with access to every gated repository, and one with access to none. */
export const HUB_TOKEN = 'hf_granted'
export const HUB_TOKEN_WITHOUT_GRANT = 'hf_stranger'

export interface HubRepo {
  repoId: string
  files: Readonly<Record<string, Buffer>>
  gated?: false | 'auto' | 'manual'
  /** Visible only with `HUB_TOKEN`. */
  isPrivate?: boolean
  licence?: string | null
  tags?: readonly string[]
  pipelineTag?: string
  library?: string
  downloads?: number
}

/** The faults of the next file requests. */
interface Faults {
  /** Returns 429 with Retry-After. */
  limited: { left: number; seconds: number }
  /** Breaks the connection halfway through the bytes. */
  cut: number
  /** Sends wrong bytes of the right length. */
  corrupt: number
  /** Sends the second half of the bytes only after this promise settles. */
  halfway: Promise<void> | undefined
}

/** A minimal hub: model search, model info, and files by revision with redirects, ranges, gating and rate limits. */
export interface TestHub extends AsyncDisposable {
  readonly url: string
  readonly faults: Faults
  /** Paths of all requests so far, as `GET /path`. */
  readonly requests: readonly { line: string; query: string; headers: IncomingMessage['headers'] }[]
  /** Commits to the default branch. */
  put(repo: HubRepo): void
  /** Commits to another branch, or to a pull request as `refs/pr/<n>`. */
  propose(ref: string, repo: HubRepo): void
  /** Tags any commit of the repository. */
  tag(repoId: string, name: string, commit: string): void
  /** Returns the number of downloads of this file. */
  downloads(path: string): number
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const blobId = (bytes: Buffer) =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
const isLfs = (path: string) => /\.(safetensors|gguf|bin)$/.test(path)

/** Returns a digest of the repository's current state as its commit id. */
export const commitOf = ({ files }: HubRepo): string => {
  const hash = createHash('sha1')
  for (const [path, bytes] of Object.entries(files)) hash.update(path).update(sha256(bytes))
  return hash.digest('hex')
}

/** A commit of a repository, with its precomputed id. */
interface Commit {
  sha: string
  repo: HubRepo
}

/** A repository with its history: the default branch, oldest commit first, and the targets of other names. */
interface RepoRefs {
  main: Commit[]
  refs: Map<string, Commit>
  tags: Map<string, Commit>
}

const headOf = ({ main }: RepoRefs): Commit | undefined => main.at(-1)

/** Resolves a branch, tag or commit. */
function resolve(stored: RepoRefs, revision: string): Commit | undefined {
  if (revision === 'main') return headOf(stored)
  const named = stored.refs.get(revision) ?? stored.tags.get(revision)
  return named ?? [...stored.main.toReversed(), ...stored.refs.values()].find(({ sha }) => sha === revision)
}

/** Starts the hub on a free port. */
export async function startHub(...repos: HubRepo[]): Promise<TestHub> {
  const byId = new Map<string, RepoRefs>()
  const storedAs = (repoId: string): RepoRefs => {
    const stored = byId.get(repoId) ?? { main: [], refs: new Map(), tags: new Map() }
    byId.set(repoId, stored)
    return stored
  }
  const put = (repo: HubRepo) => void storedAs(repo.repoId).main.push({ sha: commitOf(repo), repo })
  for (const repo of repos) put(repo)
  const requests: { line: string; query: string; headers: IncomingMessage['headers'] }[] = []
  const faults: Faults = { limited: { left: 0, seconds: 1 }, cut: 0, corrupt: 0, halfway: undefined }
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? '/', 'http://hub')
    requests.push({ line: `${req.method} ${url.pathname}`, query: url.search, headers: req.headers })
    try {
      answer({ req, res, url, byId, faults })
    } catch (err) {
      refuse(res, 500, 'InternalError', String(err))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    requests,
    put,
    propose: (ref, repo) => void storedAs(repo.repoId).refs.set(ref, { sha: commitOf(repo), repo }),
    tag(repoId, name, commit) {
      const stored = storedAs(repoId)
      const found = resolve(stored, commit)
      if (!found) throw new Error(`${repoId} has no commit ${commit}`)
      stored.tags.set(name, found)
    },
    downloads: (path) => {
      const heads = [...byId.values()].flatMap((stored) => headOf(stored)?.repo ?? [])
      const digests = heads.flatMap(({ files }) => (files[path] ? [sha256(files[path])] : []))
      return requests.filter(
        ({ line }) =>
          line.startsWith('GET ') &&
          (digests.some((digest) => line.endsWith(`/cdn/${digest}`)) ||
            (!isLfs(path) && line.endsWith(`/${path}`))),
      ).length
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

interface Exchange {
  req: IncomingMessage
  res: ServerResponse
  url: URL
  byId: Map<string, RepoRefs>
  faults: Faults
}

function answer(exchange: Exchange): void {
  const { res, url, byId } = exchange
  const path = decodeURIComponent(url.pathname)
  if (path === '/api/models') return search(exchange)
  const commits = /^\/api\/models\/([^/]+\/[^/]+)\/commits\/(.+)$/.exec(path)
  if (commits) return listCommits(exchange, commits[1] ?? '', commits[2] ?? '')
  const info = /^\/api\/models\/([^/]+\/[^/]+)(?:\/revision\/(.+))?$/.exec(path)
  if (info) return describe(exchange, info[1] ?? '', info[2] ?? 'main')
  const blob = /^\/cdn\/([0-9a-f]{64})$/.exec(path)
  if (blob) {
    const all = [...byId.values()].flatMap(({ main, refs }) => [...main, ...refs.values()])
    const files = all.flatMap(({ repo }) => Object.values(repo.files))
    const bytes = files.find((file) => sha256(file) === blob[1])
    return bytes ? sendBytes(exchange, bytes) : refuse(res, 404, 'EntryNotFound', 'no such blob')
  }
  const file = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path)
  if (file) return resolveFile(exchange, file[1] ?? '', { revision: file[2] ?? '', path: file[3] ?? '' })
  refuse(res, 404, 'NotFound', 'Not Found')
}

const mayRead = ({ req }: Exchange): boolean => req.headers.authorization === `Bearer ${HUB_TOKEN}`

/**
 * Returns the requested repository and commit; undefined if the request was rejected. A private repository appears not
 * to exist.
 */
function find(
  exchange: Exchange,
  repoId: string,
  revision: string,
): { stored: RepoRefs; commit: Commit } | undefined {
  const { res, byId, faults } = exchange
  if (isLimited(res, faults)) return undefined
  const stored = byId.get(repoId)
  const head = stored && headOf(stored)
  if (!stored || !head || (head.repo.isPrivate && !mayRead(exchange))) {
    refuse(res, 401, 'RepoNotFound', 'Repository not found')
    return undefined
  }
  const commit = resolve(stored, revision)
  if (commit) return { stored, commit }
  refuse(res, 404, 'RevisionNotFound', 'Revision not found')
  return undefined
}

/** Lists the commits up to a revision, newest first, in pages of at most 1,000. */
function listCommits(exchange: Exchange, repoId: string, revision: string): void {
  const { res, url } = exchange
  const found = find(exchange, repoId, revision)
  if (!found) return
  const { main } = found.stored
  const at = main.findLastIndex(({ sha }) => sha === found.commit.sha)
  // A proposed commit is based on the whole default branch.
  const back = at < 0 ? [found.commit, ...main.toReversed()] : main.slice(0, at + 1).toReversed()
  const limit = Math.min(Number(url.searchParams.get('limit') ?? 50), 1_000)
  const page = Number(url.searchParams.get('p') ?? 0)
  const entries = back.slice(page * limit, (page + 1) * limit)
  if (back.length > (page + 1) * limit) {
    const next = new URL(url.pathname, `http://${exchange.req.headers.host}`)
    next.search = new URLSearchParams({ limit: String(limit), p: String(page + 1) }).toString()
    res.setHeader('link', `<${next.href}>; rel="next"`)
  }
  sendJson(
    res,
    entries.map(({ sha }) => ({ id: sha, title: 'a change', message: '', authors: [], date: '' })),
  )
}

function refuse(res: ServerResponse, status: number, code: string, message: string): void {
  res.writeHead(status, {
    'content-type': 'application/json',
    'x-error-code': code,
    'x-error-message': message,
  })
  res.end(JSON.stringify({ error: message }))
}

function sendJson(res: ServerResponse, body: unknown): void {
  res.writeHead(200, { 'content-type': 'application/json' })
  res.end(JSON.stringify(body))
}

function search(exchange: Exchange): void {
  const { res, url, byId, faults } = exchange
  if (isLimited(res, faults)) return
  const { searchParams: query } = url
  const wanted = (query.get('search') ?? '').toLowerCase()
  const tag = query.get('pipeline_tag') ?? query.get('filter')
  const found = [...byId.values()]
    .flatMap((stored) => headOf(stored)?.repo ?? [])
    .filter(({ isPrivate }) => !isPrivate || mayRead(exchange))
    .filter(({ repoId }) => repoId.toLowerCase().includes(wanted))
    .filter((repo) => tag === null || repo.pipelineTag === tag || repo.tags?.includes(tag))
    .toSorted((a, b) => (b.downloads ?? 0) - (a.downloads ?? 0))
    .slice(0, Number(query.get('limit') ?? 30))
  sendJson(
    res,
    found.map((repo) => ({
      id: repo.repoId,
      downloads: repo.downloads ?? 0,
      pipeline_tag: repo.pipelineTag,
    })),
  )
}

function describe(exchange: Exchange, repoId: string, revision: string): void {
  const { res, url } = exchange
  const found = find(exchange, repoId, revision)
  if (!found) return
  const { sha, repo } = found.commit
  const withBlobs = url.searchParams.get('blobs') === 'true'
  const weights = Object.entries(repo.files).filter(([path]) => path.endsWith('.safetensors'))
  const config = repo.files['config.json']
  const parsed = config && (JSON.parse(config.toString()) as Record<string, unknown>)
  const elements = weights.reduce((sum, [, bytes]) => sum + Math.floor(bytes.length / 2), 0)
  sendJson(res, {
    id: repo.repoId,
    sha,
    gated: repo.gated ?? false,
    private: repo.isPrivate ?? false,
    downloads: repo.downloads ?? 0,
    library_name: repo.library,
    pipeline_tag: repo.pipelineTag,
    tags: [...(repo.tags ?? []), ...(repo.licence ? [`license:${repo.licence}`] : [])],
    cardData: repo.licence ? { license: repo.licence } : {},
    config: parsed && {
      architectures: parsed['architectures'],
      model_type: parsed['model_type'],
      auto_map: parsed['auto_map'],
    },
    ...(weights.length > 0 && { safetensors: { parameters: { BF16: elements }, total: elements } }),
    siblings: Object.entries(repo.files).map(([rfilename, bytes]) => ({
      rfilename,
      ...(withBlobs && { size: bytes.length, blobId: blobId(bytes) }),
      ...(withBlobs && isLfs(rfilename) && { lfs: { sha256: sha256(bytes), size: bytes.length } }),
    })),
  })
}

function isLimited(res: ServerResponse, { limited }: Faults): boolean {
  if (limited.left <= 0) return false
  limited.left -= 1
  res.writeHead(429, { ratelimit: `"api";r=0;t=${limited.seconds}`, 'ratelimit-policy': '"api";q=500;w=300' })
  res.end('Too Many Requests')
  return true
}

function resolveFile(
  exchange: Exchange,
  repoId: string,
  { revision, path }: { revision: string; path: string },
): void {
  const { req, res } = exchange
  const found = find(exchange, repoId, revision)
  if (!found) return
  const { sha, repo } = found.commit
  if (repo.gated) {
    const { authorization } = req.headers
    if (!authorization) return refuse(res, 401, 'GatedRepo', `Access to model ${repo.repoId} is restricted.`)
    if (authorization !== `Bearer ${HUB_TOKEN}`) {
      return refuse(
        res,
        403,
        'GatedRepo',
        `Access to model ${repo.repoId} is restricted and you are not in the list.`,
      )
    }
  }
  const bytes = repo.files[path]
  if (!bytes) return refuse(res, 404, 'EntryNotFound', 'Entry not found')
  res.setHeader('x-repo-commit', sha)
  if (!isLfs(path)) return sendBytes(exchange, bytes, blobId(bytes))
  const digest = sha256(bytes)
  res.writeHead(302, {
    location: `/cdn/${digest}`,
    etag: `"${digest}"`,
    'x-linked-etag': `"${digest}"`,
    'x-linked-size': bytes.length,
  })
  res.end()
}

function sendBytes({ req, res, faults }: Exchange, bytes: Buffer, tag = sha256(bytes)): void {
  const range = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? '')
  const from = Number(range?.[1] ?? 0)
  const to = range?.[2] ? Number(range[2]) : bytes.length - 1
  if (range && from >= bytes.length) {
    res.writeHead(416, { 'content-range': `bytes */${bytes.length}` })
    return void res.end()
  }
  let part = bytes.subarray(from, to + 1)
  res.setHeader('etag', `"${tag}"`)
  res.setHeader('accept-ranges', 'bytes')
  res.setHeader('content-length', part.length)
  if (range) res.setHeader('content-range', `bytes ${from}-${to}/${bytes.length}`)
  res.writeHead(range ? 206 : 200)
  if (req.method === 'HEAD') return void res.end()
  if (faults.corrupt > 0) {
    faults.corrupt -= 1
    part = Buffer.from(part.map((byte) => byte ^ 0xff))
  }
  if (faults.cut > 0) {
    faults.cut -= 1
    return void res.write(part.subarray(0, Math.ceil(part.length / 2)), () =>
      setTimeout(() => res.destroy(), 20),
    )
  }
  if (!faults.halfway) return void res.end(part)
  const middle = Math.ceil(part.length / 2)
  res.write(part.subarray(0, middle))
  void faults.halfway.then(() => res.end(part.subarray(middle)))
}
