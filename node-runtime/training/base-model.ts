import { link, mkdir, rm } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import pRetry from 'p-retry'
import type { JobBase } from '../../schemas/lease.ts'
import type { NodeModelSpec } from '../../schemas/node.ts'
import type { ControlClient } from '../control/client.ts'
import { checkModelFolder, StrayFileError } from '../models/folder.ts'
import type { ModelManager } from '../models/manager.ts'
import { BASE_PREFIX, type CachedModel, type FetchOptions, type WeightsCache } from '../weights/cache.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import { downloadFile, REFUSED, TransferError } from '../weights/transfer.ts'
import { AttemptError } from './attempt-error.ts'

export interface BaseTools {
  readonly control: Pick<ControlClient, 'modelSpec'>
  readonly weights: WeightsCache
  readonly models: Pick<ModelManager, 'report'>
}

export interface BaseOptions {
  /** Folder of the attempt. */
  dir: string
  signal: AbortSignal
  tell: (line: string) => void
}

const TELL_MS = 5_000
const MAX_TRIES = 3

/** Brings the model a run starts from onto this disk and gives its folder, which goes with the attempt. */
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
    const message = `The base model cannot be fetched: ${err.message}`
    // An address of the claim may have run out before its turn came; another attempt is given new ones.
    const retryable = base.type === 'files' && err.status === REFUSED
    throw new AttemptError('base_unavailable', message, { retryable, cause: err })
  }
  return folder
}

/** Files of known content go through the cache, for the next attempt or another run; the rest is small. */
async function fetchFiles(
  tools: BaseTools,
  { files, cache_key }: Extract<JobBase, { type: 'files' }>,
  folder: string,
  options: BaseOptions,
): Promise<void> {
  options.tell('Fetching the base model.')
  const known = cache_key === undefined ? [] : files.flatMap((file) => (isKnown(file) ? [file] : []))
  for (const { path, url } of files.filter((file) => !known.some((one) => one.path === file.path))) {
    await downloadFile({ url, path: inside(folder, path), signal: options.signal })
  }
  if (known.length === 0) return
  const model_key = `${BASE_PREFIX}${cache_key}`
  const spec = { model_key, runtime_profile: '', files: known, warmup_input: null, memory_mb: 0 }
  const find = async () => (await tools.weights.find(model_key)) ?? (await download(tools, spec, options))
  await linkFrom(find, folder)
}

const isKnown = <F extends { sha256?: string }>(file: F): file is F & { sha256: string } =>
  file.sha256 !== undefined

/** Links: whatever leaves the cache afterwards, the attempt keeps what it needs. */
function linkFrom(find: () => Promise<CachedModel>, folder: string): Promise<void> {
  return pRetry(async () => linkInto(folder, await find()), {
    retries: MAX_TRIES - 1,
    minTimeout: 0,
    // It has left the cache between the look and the link.
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
  const found = await tools.weights.find(modelKey)
  if (found) return found
  const ask = () => tools.control.modelSpec(modelKey, { signal: options.signal })
  const spec = await ask()
  options.tell('Fetching the base model.')
  return download(tools, spec, { ...options, renew: async () => (await ask()).files })
}

function download(
  { weights, models }: BaseTools,
  spec: NodeModelSpec,
  { signal, tell, renew }: BaseOptions & Pick<FetchOptions, 'renew'>,
): Promise<CachedModel> {
  const inUse = models.report().filter(({ state }) => state !== 'cold' && state !== 'evicted')
  const keep = new Set(inUse.map(({ model_key }) => model_key))
  return weights.fetch(spec, keep, { signal, onProgress: teller(tell), ...(renew && { renew }) })
}

/** A line about a download every few seconds. */
function teller(tell: (line: string) => void): (progress: DownloadProgress) => void {
  let toldAt = performance.now()
  return ({ bytes_downloaded, bytes_total, eta_seconds, rate_limited_s }) => {
    if (performance.now() - toldAt < TELL_MS) return
    toldAt = performance.now()
    if (rate_limited_s !== undefined) return tell(`The hub limits its rate; waiting ${rate_limited_s} s.`)
    const [done, all] = [bytes_downloaded, bytes_total].map((bytes) => Math.round(bytes / 1e6))
    const left = eta_seconds === null ? '' : `, about ${Math.ceil(eta_seconds)} s left`
    tell(`Fetching the base model: ${done} of ${all} MB${left}.`)
  }
}

/** A path below a folder, whatever a file is called. */
const inside = (folder: string, path: string): string => join(folder, normalize(join('/', path)))
