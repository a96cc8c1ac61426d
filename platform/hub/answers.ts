import type { Dispatcher } from 'undici'
import { retryAfter } from './rate-limit-headers.ts'

/** The pause when a hub enforces a rate limit without saying for how long. */
const DEFAULT_RETRY_DELAY_S = 60

export type HubFailure =
  | 'not_configured'
  | 'not_found'
  | 'gated_no_token'
  | 'gated_refused'
  | 'rate_limited'
  | 'unavailable'
  | 'invalid_answer'

/** The hub's response was an error. `message` may be shown to callers; `cause` is for operators. */
export class HubError extends Error {
  override readonly name = 'HubError'
  readonly code: HubFailure
  /** The number of seconds to wait before a retry, when the hub enforces a rate limit. */
  readonly retryAfterS: number | undefined

  constructor(
    code: HubFailure,
    message: string,
    { retryAfterS, cause }: { retryAfterS?: number; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.retryAfterS = retryAfterS
  }

  /** Returns the error for a missing item; a hub does not distinguish missing repositories from private ones. */
  static notFound(): HubError {
    return new HubError(
      'not_found',
      'the hub has no such repository, revision or file, or does not grant access to it',
    )
  }
}

/** One file in a repository. The hub returns the SHA-256 only for large files, and the git blob id for others. */
export interface HubFile {
  path: string
  sizeBytes: number
  sha256: string | undefined
  blobId: string | undefined
}

/** A repository at one commit. */
export interface HubRepoInfo {
  repoId: string
  revision: string
  gated: boolean
  /** True when only the platform's token can read it. */
  isPrivate: boolean
  licence: string | null
  pipelineTag: string | null
  library: string | null
  downloads: number
  tags: readonly string[]
  architectures: readonly string[]
  modelType: string | null
  hasRemoteCode: boolean
  /** The number of parameters that the hub has counted in the weights. */
  params: number | null
  ggufArchitecture: string | null
  files: readonly HubFile[]
}

/** Converts a hub's error response to an error. */
export function hubRefusal({ statusCode, headers }: Dispatcher.ResponseData, hasToken: boolean): HubError {
  const code = String(headers['x-error-code'] ?? '')
  if (statusCode === 429) {
    const retryAfterS = retryAfter(headers, Date.now()) ?? DEFAULT_RETRY_DELAY_S
    return new HubError('rate_limited', `the model hub's rate limit is reached; retry in ${retryAfterS} s`, {
      retryAfterS,
    })
  }
  if (code === 'GatedRepo' || statusCode === 403) {
    return statusCode === 401 || !hasToken
      ? new HubError('gated_no_token', 'this repository is gated')
      : new HubError('gated_refused', 'this repository is gated and the platform has not been granted access')
  }
  if (statusCode === 404 || statusCode === 401) return HubError.notFound()
  return new HubError('unavailable', `the model hub returned ${statusCode}`)
}

/** Parses the hub's description of a repository; any field may be missing. */
export function readHubInfo(repoId: string, answer: Record<string, unknown>): HubRepoInfo {
  const revision = answer['sha']
  if (typeof revision !== 'string' || !/^[0-9a-f]{40,64}$/.test(revision)) {
    throw new HubError('invalid_answer', "the hub did not return the repository's commit")
  }
  const [config, card, gguf] = [
    asRecord(answer['config']),
    asRecord(answer['cardData']),
    asRecord(answer['gguf']),
  ]
  const tags = asTexts(answer['tags'])
  const licence = asText(card['license']) ?? tags.find((tag) => tag.startsWith('license:'))?.slice(8) ?? null
  const files = (Array.isArray(answer['siblings']) ? answer['siblings'] : []).flatMap(readFile)
  return {
    repoId,
    revision,
    gated: answer['gated'] !== false && answer['gated'] !== undefined && answer['gated'] !== null,
    isPrivate: answer['private'] === true,
    licence,
    pipelineTag: asText(answer['pipeline_tag']),
    library: asText(answer['library_name']),
    downloads: asNumber(answer['downloads']) ?? 0,
    tags,
    architectures: asTexts(config['architectures']),
    modelType: asText(config['model_type']),
    hasRemoteCode: Object.keys(asRecord(config['auto_map'])).length > 0 || tags.includes('custom_code'),
    params: asNumber(asRecord(answer['safetensors'])['total']) ?? asNumber(gguf['total']),
    ggufArchitecture: asText(gguf['architecture']),
    files,
  }
}

function readFile(entry: unknown): HubFile[] {
  const { rfilename: path, size, blobId, lfs } = asRecord(entry)
  if (typeof path !== 'string' || path.startsWith('/') || path.split('/').includes('..')) return []
  const { sha256, size: lfsSize } = asRecord(lfs)
  const digest = asText(sha256)
  return [
    {
      path,
      sizeBytes: asNumber(lfsSize) ?? asNumber(size) ?? 0,
      sha256: digest && /^[0-9a-f]{64}$/.test(digest) ? digest : undefined,
      blobId: asText(blobId) ?? undefined,
    },
  ]
}

export const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
const asText = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
const asTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : []
export const asNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
