import { setTimeout as sleep } from 'node:timers/promises'
import pTimeout from 'p-timeout'
import { CHAT_PATH } from '../../domain/chat/chat.ts'
import { faultInOneLine } from '../../domain/models/answer.ts'
import { inferPathOf } from '../../domain/task-types/infer-path.ts'
import { OUTPUT_TYPE, OutputError } from '../../platform/model-output.ts'
import { treeOf } from '../../platform/processes/process-tree.ts'
import type { EngineCounts, RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { readLines } from '../processes/output-lines.ts'
import type { ProcessExit } from '../processes/process-driver.ts'
import { EngineBudget, followCounts } from './engine-budget.ts'
import {
  type AdapterFolder,
  type Drivers,
  launch,
  type LaunchedServer,
  type ModelServerSpec,
  type ServerAddress,
  type ServerProcess,
} from './launch.ts'
import type { LoadDeadline } from './load-deadline.ts'
import { adapterPool, basePool } from './named-pools.ts'
import { saveOutput } from './output-stream.ts'
import { ServerTurns } from './server-turns.ts'
import { poolOf, type ServerPool, type WatchedPool } from './watched-pool.ts'
import { withoutPaths } from './without-paths.ts'

/** The exit status of a model server whose weights cannot be loaded on any node (servers/README.md). */
export const UNUSABLE_STATUS = 65
/** The beginning of the line with the reason; libraries may print more after it. */
export const UNUSABLE_LINE = 'its weights cannot be used'
/** The exit status of a model server that cannot use the GPU that it was placed on, and the beginning of its line. */
const NO_GPU_STATUS = 69
const NO_GPU_LINE = 'it was placed on a GPU that it cannot use'
/** A chat server's error about its model's template. */
const TEMPLATE = /"the model's chat template refuses/
/** The name under which Hearth's own servers list their model. */
const SERVED_NAME = 'model'
const LAST_LINES = 20
const HEALTH_POLL_INTERVAL_MS = 200
const MODELS_TIMEOUT_MS = 5_000
const MAX_MODEL_LEN = 1_000_000_000

/** Thrown if a model can't be loaded or stops answering. The message is for operators and waiting callers. */
export class ModelServerError extends Error {
  override readonly name: string = 'ModelServerError'
  /** True when the server blames the weights. */
  readonly isUnusable: boolean

  constructor(message: string, { isUnusable = false } = {}) {
    super(message)
    this.isUnusable = isUnusable
  }
}

/** Thrown if a server can't use the GPU that it was placed on, which is a fault of this node. */
export class NoGpuError extends ModelServerError {
  override readonly name = 'NoGpuError'
}

export interface ServerStartOptions {
  deadline: LoadDeadline
  stopping: AbortSignal
  /** Called with the process ids, even for a server that fails to start. */
  onPids?: (pids: readonly number[]) => void
  /** Called with each line that the server writes, for as long as it lives. */
  onLine?: (line: string) => void
}

/** A server with a process of its own, or an adapter in the server of its base. */
export type RunningServer = Omit<ModelServer, 'poolOf' | 'control'>

/** The address of a server that is ready, and the concurrency that it chose if it differs from its profile's. */
type ReadyServer = ServerAddress & { concurrency?: number }

/** One model server process and the pool of connections to it. */
export class ModelServer {
  readonly profile: RuntimeProfile
  readonly pool: ServerPool
  readonly #watched: WatchedPool
  readonly turns: ServerTurns
  /** The folder for payload files that the node and this server exchange. */
  readonly exchangeDir: string | undefined
  /** The folder for adapters, on this machine and as the server sees it; undefined if it accepts none. */
  readonly adapters: AdapterFolder | undefined
  readonly #process: ServerProcess
  /** Health checks have their own connection, so that they don't queue behind requests. */
  readonly #healthPool: WatchedPool
  readonly #lastLines: string[]
  readonly #budget: EngineBudget
  /** The tokens that prompt and output may take together, if the server reports it. */
  maxModelLen: number | undefined
  #probeInput: unknown
  #endedFor: string | undefined

  private constructor(
    profile: RuntimeProfile,
    { process, exchangeDir, adapters }: LaunchedServer,
    { concurrency = profile.max_concurrency, ...address }: ReadyServer,
    lastLines: string[],
  ) {
    this.profile = profile
    this.exchangeDir = exchangeDir
    this.adapters = adapters
    this.#process = process
    this.#lastLines = lastLines
    this.#watched = poolOf(address, profile.max_concurrency)
    this.pool = adapters ? basePool(this.#watched, profile.served_model ?? SERVED_NAME) : this.#watched
    this.turns = new ServerTurns(concurrency)
    this.#healthPool = poolOf(address, 1)
    this.#budget = new EngineBudget(concurrency)
    if (profile.engine_counts) this.#follow(profile.engine_counts)
  }

  /** Starts the server and waits until it is ready or the deadline aborts. */
  static async start(
    drivers: Drivers,
    spec: ModelServerSpec,
    { deadline, stopping, onPids = () => {}, onLine = () => {} }: ServerStartOptions,
  ): Promise<ModelServer> {
    const launched = await launch(drivers, spec)
    const { process, address: chosen } = launched
    const lastLines: string[] = []
    const look = async () => {
      const pids = await pidsOf(process)
      onPids(pids)
      return pids
    }
    deadline.watch(look)
    const signal = AbortSignal.any([deadline.signal, stopping])
    try {
      const firstAddressLine = firstAddress(process, { lastLines, deadline, onLine })
      const isByHealth = spec.profile.ready === 'health'
      const ready = isByHealth ? answersHealth(spec.profile, chosen, signal) : firstAddressLine
      const address = await Promise.race([ready, failure(process, lastLines, signal)])
      const server = new ModelServer(spec.profile, launched, { ...address, ...chosen }, lastLines)
      await server.#readLimits(signal)
      return server
    } catch (err) {
      // Stop the processes even if their ids can't be read.
      await look().catch(() => {})
      await process.stop({ graceMs: 0 })
      throw err
    }
  }

  /** The limit on concurrent requests to the server. */
  get concurrency(): number {
    return this.#budget.requests
  }

  get exited(): Promise<ProcessExit> {
    return this.#process.exited
  }

  /** The message that explains why the node ended the server. */
  get excess(): string | undefined {
    return this.#endedFor ?? this.#process.excess
  }

  /** The line in which the server reported that it can't use its GPU or lost it; undefined if there is none. */
  get gpuFault(): string | undefined {
    return gpuFaultIn(this.#lastLines)
  }

  /** The last lines of its output, which explain a failure. */
  get lastWords(): string {
    return this.#lastLines.slice(-5).join('\n')
  }

  /** Returns the pool for requests to one of its adapters. */
  poolOf(adapter: string): ServerPool {
    return adapterPool(this.#watched, adapter)
  }

  /** Returns the process ids of the server and its descendants; an empty list once it has exited. */
  pids(): Promise<readonly number[]> {
    return pidsOf(this.#process)
  }

  /** Sends one real inference request; throws unless it succeeds. */
  async probe(input: unknown, signal?: AbortSignal): Promise<void> {
    this.#probeInput = input
    await inferOnce(this.pool, this.profile, input, signal)
  }

  /**
   * Repeats the load's inference request. Returns the error of the server's response, `passed` after a success, or
   * `unanswered` if no response came in time, which proves nothing.
   */
  async probeAgain(timeoutMs: number): Promise<{ error: string } | 'passed' | 'unanswered'> {
    try {
      const signal = AbortSignal.timeout(timeoutMs)
      // undici ignores the signal of a request that is waiting for a connection.
      const probe = () => pTimeout(this.probe(this.#probeInput, signal), { milliseconds: timeoutMs })
      await this.#watched.probe(probe)
      return 'passed'
    } catch (err) {
      if (err instanceof ModelServerError || err instanceof OutputError) return { error: err.message }
      this.#watched.suspect()
      return 'unanswered'
    }
  }

  async isHealthy(timeoutMs: number): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(timeoutMs)
      const answer = await this.#healthPool.request({ method: 'GET', path: this.profile.health_path, signal })
      await answer.body.dump()
      return answer.statusCode === 200
    } catch {
      return false
    }
  }

  /** Calls a route that is only for the node, and returns its response. Throws unless the status is 200. */
  async control(method: 'GET' | 'POST', path: string, signal: AbortSignal): Promise<unknown> {
    const answer = await this.#healthPool.request({ method, path, signal })
    const text = await answer.body.text()
    if (answer.statusCode === 200) return JSON.parse(text)
    throw new ModelServerError(`${path} ${withoutPaths(faultInOneLine(answer.statusCode, text))}`)
  }

  /** Ends the server at once, for a reason that its model reports. The exit is handled like a crash. */
  async end(reason: string): Promise<void> {
    this.#endedFor = reason
    await this.stop({ graceMs: 0 })
  }

  /** Reads the context length of a chat server from its list of models; leaves it unknown if it isn't there. */
  async #readLimits(signal: AbortSignal): Promise<void> {
    if (this.profile.infer_path !== CHAT_PATH) return
    try {
      const within = AbortSignal.any([signal, AbortSignal.timeout(MODELS_TIMEOUT_MS)])
      const { body } = await this.#healthPool.request({ method: 'GET', path: '/v1/models', signal: within })
      const { data } = (await body.json()) as { data?: { max_model_len?: unknown }[] }
      const length = Number(data?.[0]?.max_model_len)
      if (Number.isSafeInteger(length) && length > 0 && length <= MAX_MODEL_LEN) this.maxModelLen = length
    } catch {
      // Not every server has this route, and requests work without it.
    }
  }

  #follow(counts: EngineCounts): void {
    const ended = new AbortController()
    void this.exited.finally(() => ended.abort())
    const onCounts = (read: { running: number; waiting: number }) => {
      this.#budget.observe(read)
      this.turns.setMost(this.#budget.requests)
    }
    void followCounts(this.#healthPool, counts, { onCounts, signal: ended.signal })
  }

  /** Resolves when the process tree has exited. */
  async stop({ graceMs = this.profile.stop_grace_s * 1000 }: { graceMs?: number } = {}): Promise<void> {
    await this.#process.stop({ graceMs })
    await Promise.all([this.#watched.destroy(), this.#healthPool.destroy()])
  }
}

/** Sends one real inference request to a server; throws unless it succeeds. */
export async function inferOnce(
  pool: ServerPool,
  { infer_path }: RuntimeProfile,
  input: unknown,
  signal: AbortSignal | undefined,
): Promise<void> {
  const answer = await pool.request({
    method: 'POST',
    path: inferPathOf(infer_path, undefined),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(input),
    ...(signal && { signal }),
  })
  if (answer.statusCode === 200 && answer.headers['content-type'] === OUTPUT_TYPE) {
    // The smallest request may produce invalid output even though the server works.
    await saveOutput(answer.body).catch((err: unknown) => {
      if (!(err instanceof OutputError) || err.retryable) throw err
    })
    return
  }
  const text = await answer.body.text()
  if (answer.statusCode !== 200) {
    const message = `its first inference ${withoutPaths(faultInOneLine(answer.statusCode, text))}`
    // A template that rejects the simplest conversation rejects all of them, so another load can't help.
    throw new ModelServerError(message, { isUnusable: answer.statusCode === 400 && TEMPLATE.test(text) })
  }
}

async function pidsOf(process: ServerProcess): Promise<readonly number[]> {
  const pid = await process.pid()
  return pid === undefined ? [] : treeOf(pid)
}

/** Returns the address and concurrency from the ready line. Keeps reading as long as the server lives, so that its pipes never fill. */
function firstAddress(
  { stdout, stderr }: ServerProcess,
  {
    lastLines,
    deadline,
    onLine,
  }: { lastLines: string[]; deadline: LoadDeadline; onLine: (line: string) => void },
): Promise<ReadyServer> {
  return new Promise((resolve) => {
    const keep = (line: string) => {
      deadline.heard()
      onLine(line)
      lastLines.push(line)
      if (lastLines.length > LAST_LINES) lastLines.shift()
    }
    const take = (line: string) => {
      const address = addressOf(line)
      if (address) resolve(address)
      else keep(line)
    }
    // A pipe only breaks when its process ends, which is handled elsewhere.
    readLines(stdout, take).catch(() => {})
    readLines(stderr, keep).catch(() => {})
  })
}

/** Polls the health check until it succeeds. */
async function answersHealth(
  profile: RuntimeProfile,
  address: ServerAddress | undefined,
  signal: AbortSignal,
): Promise<ServerAddress> {
  if (!address) throw new ModelServerError('its address is not known')
  const pool = poolOf(address, 1)
  try {
    while (!signal.aborted) {
      const status = await pool
        .request({ method: 'GET', path: profile.health_path, signal })
        .then(async ({ statusCode, body }) => (await body.dump(), statusCode))
        .catch(() => 0)
      if (status === 200) return address
      await sleep(HEALTH_POLL_INTERVAL_MS)
    }
    throw signal.reason
  } finally {
    await pool.destroy()
  }
}

/** Rejects with the server's last lines when the server exits or the signal aborts. */
function failure(process: ServerProcess, lastLines: string[], signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const give = (why: string, lines: number) =>
      reject(new ModelServerError(`${why}. ${lines ? lastLines.slice(-lines).join('\n') : ''}`.trim()))
    const abort = () => {
      const reason: unknown = signal.reason
      give(reason instanceof Error ? reason.message : 'it was not ready in time', 3)
    }
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    void process.exited.then(({ code }) => {
      const why = lastLines.findLast((line) => line.startsWith(UNUSABLE_LINE))
      if (code === UNUSABLE_STATUS && why !== undefined) {
        return reject(new ModelServerError(why, { isUnusable: true }))
      }
      const noGpu = gpuFaultIn(lastLines)
      if (code === NO_GPU_STATUS && noGpu !== undefined) return reject(new NoGpuError(noGpu))
      return process.excess === undefined
        ? give(`it exited with status ${code} before it was ready`, 5)
        : give(`the node ended it before it was ready: ${process.excess}`, 0)
    })
  })
}

const gpuFaultIn = (lines: readonly string[]): string | undefined =>
  lines.findLast((line) => line.startsWith(NO_GPU_LINE))

function addressOf(line: string): ReadyServer | undefined {
  if (!line.startsWith('{')) return undefined
  try {
    const { event, port, socket, concurrency } = JSON.parse(line) as {
      event?: string
      port?: number
      socket?: string
      concurrency?: number
    }
    if (event !== 'ready') return undefined
    const chosen = concurrency === undefined ? {} : { concurrency }
    if (port) return { port, ...chosen }
    return socket === undefined ? undefined : { socket, ...chosen }
  } catch {
    return undefined
  }
}
