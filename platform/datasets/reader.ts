import { fork } from 'node:child_process'
import { on, once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DatasetPreview } from '../../schemas/dataset.ts'
import { MemoryWatch } from '../processes/memory-watch.ts'
import { ownNamespaces } from '../processes/own-namespaces.ts'
import { treeOf } from '../processes/process-tree.ts'
import { DatasetRefused, type DatasetFormat, type DatasetProfile } from './profile.ts'

export interface ReadOrder {
  path: string
  format: DatasetFormat
  /** An empty folder for unpacking. */
  directory: string
}

export type ReadAnswer = { profile: DatasetProfile } | { refused: string } | { broken: string }

/** Sent after the profile; null when there are no rows to show. */
export interface PreviewAnswer {
  preview: DatasetPreview | null
}

/** The reader's process ended without a result, or with an invalid one. */
export class DatasetReaderBroken extends Error {
  override readonly name = 'DatasetReaderBroken'
}

const CHILD = fileURLToPath(new URL('reader-child.ts', import.meta.url))
/** The limits of a reader. Reading Parquet may use 1 GB, and no legitimate file needs twice that. */
export interface ReadBounds {
  memoryMb: number
  ms: number
}
const MAX_MEMORY_MB = 2_048
/** The minimum time limit. On an idle machine, reading takes seconds per hundred megabytes. */
const MIN_READ_TIMEOUT_MS = 2 * 60_000
const MAX_READ_TIMEOUT_MS = 15 * 60_000
const READ_MS_PER_MB = 3_000
const MB = 1024 * 1024
const HEAP_MB = 512
/** The time limit for reading the first rows again; beyond it there is no preview. */
const PREVIEW_TIMEOUT_MS = 20_000
const FOLDER_TTL_MS = 24 * 3_600_000

/**
 * Returns the limits for a file of this size. A worker reads only a few files at a time, so a small file that expands
 * to billions of rows must not keep others waiting for long.
 */
export const boundsOf = (bytes: number): ReadBounds => ({
  memoryMb: MAX_MEMORY_MB,
  ms: Math.min(MAX_READ_TIMEOUT_MS, MIN_READ_TIMEOUT_MS + (bytes / MB) * READ_MS_PER_MB),
})

/**
 * Reads a whole file as `format` and returns its rows and columns; throws `DatasetRefused` if the file doesn't have
 * that format. The reader runs in its own process, so memory is bounded and a bad file can crash only that process.
 */
export async function readDataset(
  file: { path: string; format: DatasetFormat },
  { signal, bounds }: { signal?: AbortSignal; bounds?: ReadBounds | undefined } = {},
): Promise<DatasetProfile & { peakBytes: number; preview: DatasetPreview | null }> {
  signal?.throwIfAborted()
  await using folder = await temporaryFolder()
  const limits = bounds ?? boundsOf((await stat(file.path).catch(() => undefined))?.size ?? 0)
  const answer = await runChild({ ...file, directory: folder.path }, limits, signal)
  if ('refused' in answer) throw new DatasetRefused(answer.refused)
  if ('broken' in answer) throw new DatasetReaderBroken(answer.broken)
  return { ...answer.profile, peakBytes: answer.peakBytes, preview: answer.preview }
}

async function runChild(order: ReadOrder, { memoryMb, ms }: ReadBounds, signal: AbortSignal | undefined) {
  const { PATH } = process.env
  const [program, ...before] = [
    ...(await ownNamespaces()),
    process.execPath,
    `--max-old-space-size=${HEAP_MB}`,
  ]
  signal?.throwIfAborted()
  const child = fork(CHILD, {
    execPath: program,
    execArgv: before,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // The process parses untrusted files, so it gets no secrets. Its files are removed with its folder.
    env: { ...(PATH !== undefined && { PATH }), TMPDIR: order.directory },
  })
  const kill = () => void child.kill('SIGKILL')
  let excess: string | undefined
  using _watch = new MemoryWatch({
    pids: async () => (child.pid === undefined ? [] : treeOf(child.pid, { everyThread: true })),
    limitMb: memoryMb,
    onOver: (found) => {
      excess = found
      kill()
    },
  })
  const timer = setTimeout(() => {
    excess = `it took longer than ${Number((ms / 60_000).toPrecision(2))} minutes`
    kill()
  }, ms)
  signal?.addEventListener('abort', kill, { once: true })
  try {
    const exited = once(child, 'exit').then(async () => {
      // The child's last message may still be in the channel.
      if (child.connected) await once(child, 'disconnect')
      signal?.throwIfAborted()
      if (excess !== undefined)
        throw new DatasetRefused(`the file cannot be read within the limits: ${excess}`)
      throw new DatasetReaderBroken(
        `the reader's process ended early (${child.signalCode ?? child.exitCode})`,
      )
    })
    child.send(order)
    const messages = on(child, 'message')
    const [answer] = (await Promise.race([next(messages), exited])) as [ReadAnswer & { peakBytes: number }]
    if (!('profile' in answer)) return { ...answer, preview: null }
    const patience = AbortSignal.timeout(PREVIEW_TIMEOUT_MS)
    const late = once(patience, 'abort').then(() => undefined)
    const shown = Promise.race([next(messages), exited, late]) as Promise<[PreviewAnswer] | undefined>
    return { ...answer, preview: (await shown.catch(() => undefined))?.[0].preview ?? null }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', kill)
    kill()
  }
}

/** Returns the next event of a stream. */
const next = async (events: AsyncIterator<unknown>): Promise<unknown> => (await events.next()).value

/** Creates a temporary folder for one dataset, and removes day-old folders of killed processes. */
export async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const root = join(tmpdir(), 'hearth-datasets')
  await mkdir(root, { recursive: true, mode: 0o700 })
  for (const name of await readdir(root)) {
    const found = await stat(join(root, name)).catch(() => undefined)
    if (found && found.mtimeMs < Date.now() - FOLDER_TTL_MS) {
      await rm(join(root, name), { recursive: true, force: true })
    }
  }
  const path = await mkdtemp(join(root, 'work-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
