import { link, mkdir, rm } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import pRetry from 'p-retry'
import type { JobBase } from '../../schemas/nodes/lease.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { ControlClient } from '../control/client.ts'
import { checkModelFolder, StrayFileError } from '../models/folder.ts'
import type { ModelManager } from '../models/manager.ts'
import { type CachedModel, type FetchOptions, type WeightsCache } from '../weights/cache.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import { baseKey } from '../weights/keys.ts'
import { downloadFile, REFUSED, TransferError } from '../weights/transfer.ts'
import { AttemptError } from './attempt-error.ts'

export interface BaseTools {
  readonly control: Pick<ControlClient, 'modelSpec'>
  readonly weights: WeightsCache
  readonly models: Pick<ModelManager, 'inUse'>
}

export interface BaseOptions {
  /** The folder of the attempt. */
  dir: string
  signal: AbortSignal
  tell: (line: string) => void
}

const LOG_INTERVAL_MS = 5_000
const MAX_TRIES = 3

/** Downloads the base model of a run and returns its folder, which is removed with the attempt. */
export async function fetchBase(tools: BaseTools, base: JobBase, options: BaseOptions): Promise<string> {
  if (base.type === 'unavailable') {
    throw new AttemptError('base_unavailable', base.message, { retryable: false })
  }
  const folder = join(options.dir, 'base')
  try {
    if (base.type === 'files') await fetchFiles(tools, base, folder, options)
    else await linkFrom(() => fromCache(tools, base.model_key, options), folder)
    await checkModelFolder(folder)
  } catch (err) {
    if (err instanceof StrayFileError) {
      throw new AttemptError('bad_base', `The base model cannot be used: ${err.message}.`, {
        retryable: false,
        cause: err,
      })
    }
    if (!(err instanceof TransferError)) throw err
    const message = `The base model could not be downloaded: ${err.message}`
    // The claim's URLs may have expired before they were used; the next attempt gets new ones.
    const retryable = base.type === 'files' && err.status === REFUSED
    throw new AttemptError('base_unavailable', message, { retryable, cause: err })
  }
  return folder
}

/**
 * Downloads files with a known digest through the cache, so that later attempts and other runs can reuse them. Other
 * files are small and bypass it.
 */
async function fetchFiles(
  tools: BaseTools,
  { files, cache_key }: Extract<JobBase, { type: 'files' }>,
  folder: string,
  options: BaseOptions,
): Promise<void> {
  options.tell('Downloading the base model.')
  const known = cache_key === undefined ? [] : files.flatMap((file) => (isKnown(file) ? [file] : []))
  for (const { path, url, from_hub } of files.filter(
    (file) => !known.some((one) => one.path === file.path),
  )) {
    await downloadFile({ url, path: inside(folder, path), isOutside: from_hub, signal: options.signal })
  }
  if (known.length === 0) return
  const model_key = baseKey(cache_key ?? '')
  const spec = { model_key, runtime_profile: '', files: known, warmup_input: null, memory_mb: 0 }
  const find = async () => (await used(tools, model_key)) ?? (await download(tools, spec, options))
  await linkFrom(find, folder)
}

const isKnown = <F extends { sha256?: string }>(file: F): file is F & { sha256: string } =>
  file.sha256 !== undefined

/** Hard-links the files, so that the attempt still has them if the cache removes the model. */
function linkFrom(find: () => Promise<CachedModel>, folder: string): Promise<void> {
  return pRetry(async () => linkInto(folder, await find()), {
    retries: MAX_TRIES - 1,
    minTimeout: 0,
    // The cache removed the model between `find` and the link.
    shouldRetry: ({ error }) => 'code' in error && error.code === 'ENOENT',
  })
}

async function linkInto(folder: string, { spec, directory }: CachedModel): Promise<void> {
  for (const { path } of spec.files) {
    const target = inside(folder, path)
    await mkdir(dirname(target), { recursive: true })
    await rm(target, { force: true })
    await link(join(directory, path), target)
  }
}

async function fromCache(tools: BaseTools, modelKey: string, options: BaseOptions): Promise<CachedModel> {
  const found = await used(tools, modelKey)
  if (found) return found
  const requestSpec = () => tools.control.modelSpec(modelKey, { signal: options.signal })
  const spec = await requestSpec()
  options.tell('Downloading the base model.')
  return download(tools, spec, { ...options, renew: async () => (await requestSpec()).files })
}

/** Finds a base in the cache and records its use. */
async function used({ weights }: BaseTools, modelKey: string): Promise<CachedModel | undefined> {
  const found = await weights.find(modelKey)
  if (found) await weights.touch(modelKey)
  return found
}

function download(
  { weights, models }: BaseTools,
  spec: NodeModelSpec,
  { signal, tell, renew }: BaseOptions & Pick<FetchOptions, 'renew'>,
): Promise<CachedModel> {
  return weights.fetch(spec, () => models.inUse(), {
    signal,
    onProgress: progressLogger(tell),
    ...(renew && { renew }),
  })
}

/** Logs a line about a download every few seconds. */
function progressLogger(tell: (line: string) => void): (progress: DownloadProgress) => void {
  let loggedAt = performance.now()
  return ({ bytes_downloaded, bytes_total, eta_seconds, rate_limited_s }) => {
    if (performance.now() - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = performance.now()
    if (rate_limited_s !== undefined) return tell(`The hub is rate limiting; waiting ${rate_limited_s} s.`)
    const [done, all] = [bytes_downloaded, bytes_total].map((bytes) => Math.round(bytes / 1e6))
    const remainingTime = eta_seconds === null ? '' : `, about ${Math.ceil(eta_seconds)} s left`
    tell(`Downloading the base model: ${done} of ${all} MB${remainingTime}.`)
  }
}

/** Returns a path within the folder, whatever the file's name is. */
const inside = (folder: string, path: string): string => join(folder, normalize(join('/', path)))
