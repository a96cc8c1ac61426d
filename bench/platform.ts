import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Hearth, hearth } from '../client/index.ts'
import { exportTable, register, train, uploadTable } from '../embedded/demo/steps.ts'
import { readIdentity } from '../embedded/processes/pid-files.ts'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { readConfig } from '../platform/config.ts'

/** A complete platform as `npm start` runs it, with one trained model behind an endpoint. */
export interface BenchPlatform extends AsyncDisposable {
  baseUrl: string
  apiKey: string
  accountId: string
  operationsKey: string
  /** Its log folder. */
  logs: string
  h: Hearth
  endpoint: Awaited<ReturnType<typeof register>>
  temporalAddress: string
  pidOf: (name: 'api' | 'gate' | 'node' | 'control' | 'postgres' | 'temporal') => number
}

/** Starts a platform in a new directory and trains a tabular model; disposing it removes everything. */
export async function startPlatform(env: NodeJS.ProcessEnv = {}): Promise<BenchPlatform> {
  const dataDir = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  const readyFile = join(dataDir, 'ready.json')
  const supervisor = spawn(process.execPath, ['embedded/start.ts', '--ready-file', readyFile], {
    env: { ...process.env, HEARTH_DATA_DIR: dataDir, HEARTH_PORT: '0', HEARTH_RATE_LIMIT: '0', ...env },
    stdio: 'ignore',
  })
  const stop = async () => {
    supervisor.kill('SIGTERM')
    if (supervisor.exitCode === null) await once(supervisor, 'exit')
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    while (!existsSync(readyFile)) {
      if (supervisor.exitCode !== null) throw new Error('the platform did not start')
      await sleep(50)
    }
    const ready = JSON.parse(readFileSync(readyFile, 'utf8')) as Record<string, string>
    const h = hearth({ baseUrl: ready['base_url']!, apiKey: ready['api_key']! })
    return {
      baseUrl: ready['base_url']!,
      apiKey: ready['api_key']!,
      accountId: ready['account_id']!,
      operationsKey: ready['operations_key']!,
      logs: join(dataDir, 'logs'),
      temporalAddress: ready['temporal_address']!,
      h,
      endpoint: await trainEndpoint(h),
      pidOf(name) {
        const pid = readIdentity(join(dataDir, 'run', `${name}.pid`))?.pid
        if (pid === undefined) throw new Error(`${name} is not running`)
        return pid
      },
      [Symbol.asyncDispose]: stop,
    }
  } catch (err) {
    await stop()
    throw err
  }
}

async function trainEndpoint(h: Hearth) {
  const { python } = await ensurePythonEnv('tabular', {
    cacheDir: readConfig().HEARTH_CACHE_DIR,
    log: () => {},
  })
  const { dataset_id } = await uploadTable(h, await exportTable(python))
  const { jobId } = await train(h, dataset_id, () => {})
  return register(h, jobId)
}

const TICKS_PER_SECOND = 100

/** Returns the CPU seconds that a process has used so far. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** Returns the live descendants of a process whose command contains a word. */
export function descendants(pid: number, word: string): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {
      // The process has exited in the meantime.
    }
  }
  const isBelow = (child: number): boolean => {
    const parent = parents.get(child)
    return parent !== undefined && parent > 1 && (parent === pid || isBelow(parent))
  }
  const commandOf = (each: number) => {
    try {
      return readFileSync(`/proc/${each}/cmdline`, 'utf8')
    } catch {
      return ''
    }
  }
  return [...parents.keys()].filter((each) => isBelow(each) && commandOf(each).includes(word))
}

/** Returns the inodes of a process's sockets. */
const socketsOf = (pid: number): ReadonlySet<string> =>
  new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? []
      } catch {
        return []
      }
    }),
  )

/** Returns the fields of each line of a socket table, without its header. */
const tableOf = (pid: number, name: 'tcp' | 'unix'): string[][] =>
  readFileSync(`/proc/${pid}/net/${name}`, 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))

/** Returns the TCP port that a process listens on, if any. */
export function listeningPort(pid: number): number | undefined {
  const sockets = socketsOf(pid)
  const LISTEN = '0A'
  const found = tableOf(pid, 'tcp').find((fields) => fields[3] === LISTEN && sockets.has(fields[9] ?? ''))
  return found && Number.parseInt(found[1]!.split(':')[1]!, 16)
}

/** Returns the path of the Unix socket that a process listens on, if any. */
export function listeningSocket(pid: number): string | undefined {
  const sockets = socketsOf(pid)
  const ACCEPTS = '00010000'
  return tableOf(pid, 'unix').find((fields) => fields[3] === ACCEPTS && sockets.has(fields[6] ?? ''))?.[7]
}

/** Returns the percentile of a list of figures; `share` is from 0 to 1. */
export const percentile = (figures: readonly number[], share: number): number =>
  figures.toSorted((a, b) => a - b)[Math.min(figures.length - 1, Math.floor(figures.length * share))] ??
  Number.NaN

/** Returns the median of a list of figures. */
export const median = (figures: readonly number[]): number => percentile(figures, 0.5)
