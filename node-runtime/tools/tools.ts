import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { timeLimitOf, toolKey } from '../../domain/tools/catalog.ts'
import { FairTurns } from '../../platform/async/fair-turns.ts'
import type { Logger } from '../../platform/log.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import type { NodeModel } from '../../schemas/node.ts'
import { emit } from '../events.ts'
import type { StartedTool, ToolDriver, ToolRun } from './driver.ts'
import { fetchFiles, openEgress, type Outside } from './outside.ts'
import { resultOf } from './run-tool.ts'
import { ToolError } from './tool-error.ts'

/** A tool with the folder of its program. */
export interface InstalledTool {
  tool: CatalogTool
  program: string | undefined
}

export interface ToolsOptions {
  tools: readonly InstalledTool[]
  /** Undefined when this machine cannot confine tools. */
  driver: ToolDriver | undefined
  /** The folder for the files of requests. */
  workDir: string
  /** What tools may reach outside, and the files that they are given. */
  outside: Outside
  log: Logger
}

const MOST_WAITING = 1_000
const SOCKET = 'egress.sock'
/** The longest path of a Unix socket that every system accepts. */
const LONGEST_SOCKET = 100

/**
 * The tools of this node. Each request starts its tool, confined, and ends it with the result: nothing is kept
 * between two requests.
 */
export class Tools implements AsyncDisposable {
  readonly #options: ToolsOptions
  readonly #tools: ReadonlyMap<string, InstalledTool>
  readonly #turns = new FairTurns({
    most: 2 * availableParallelism(),
    mostPerKey: Number.POSITIVE_INFINITY,
    mostWaiting: MOST_WAITING,
  })
  readonly #stopping = new AbortController()
  readonly #running = new Map<Promise<unknown>, string>()
  readonly #ending = new Set<Promise<void>>()

  constructor(options: ToolsOptions) {
    this.#options = options
    this.#tools = new Map(
      options.driver ? options.tools.map((one) => [toolKey(one.tool.slug), one] as const) : [],
    )
  }

  /** The Python environments that they need. */
  get environments(): Set<string> {
    return new Set([...this.#tools.values()].flatMap(({ tool }) => tool.python_env ?? []))
  }

  has(modelKey: string): boolean {
    return this.#tools.has(modelKey)
  }

  /** Returns the tools as models that are always loaded, because a request needs nothing else of a node. */
  report(): NodeModel[] {
    const running = [...this.#running.values()]
    return [...this.#tools.keys()].map((model_key) => ({
      model_key,
      state: 'idle',
      in_flight: running.filter((key) => key === model_key).length,
      memory_mb: 0,
    }))
  }

  /** Runs a tool with this input and returns its result, both as JSON. Throws `ToolError`, or the signal's reason. */
  async run(modelKey: string, input: Buffer, signal: AbortSignal): Promise<Buffer> {
    const installed = this.#tools.get(modelKey)
    const { driver } = this.#options
    if (!installed || !driver) throw new ToolError('this node does not have the tool', { isOfNode: true })
    const ending = AbortSignal.any([signal, this.#stopping.signal])
    const work = this.#run(installed, driver, input, ending)
    this.#running.set(work, modelKey)
    try {
      return await work
    } finally {
      this.#running.delete(work)
    }
  }

  /** Ends all runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new ToolError('this node is stopping', { isOfNode: true }))
    await Promise.allSettled(this.#running.keys())
    await Promise.allSettled(this.#ending)
  }

  async #run(
    { tool, program }: InstalledTool,
    driver: ToolDriver,
    input: Buffer,
    signal: AbortSignal,
  ): Promise<Buffer> {
    const stack = new AsyncDisposableStack()
    try {
      stack.use(await this.#turns.take(tool.slug, signal))
      const folder = stack.use(await this.#makeFolder()).path
      const value = JSON.parse(input.toString()) as Record<string, unknown>
      const own = await writeInput(folder, tool, input, value)
      const { outside } = this.#options
      await fetchFiles(outside, { tool, value, folder: own, signal })
      const socket = join(folder, SOCKET)
      const egress = stack.use(await openEgress(outside, tool, socket)) && socket
      const timeS = timeLimitOf(tool, value)
      const started = await this.#start(driver, { tool, program, input: own, egress, timeS })
      stack.defer(() => started.gone.then(() => {}))
      return await resultOf(tool, started, { timeS, signal })
    } finally {
      // The result does not wait for the end of what is left of the run, and the next run does.
      const ending = stack.disposeAsync().finally(() => this.#ending.delete(ending))
      this.#ending.add(ending)
    }
  }

  #start(driver: ToolDriver, run: ToolRun): Promise<StartedTool> {
    return driver.start(run).catch((cause: unknown) => {
      emit(this.#options.log, 'tool.start_failed', { slug: run.tool.slug, err: cause })
      throw new ToolError('this node could not start the tool', { isOfNode: true, cause })
    })
  }

  async #makeFolder(): Promise<AsyncDisposable & { path: string }> {
    const { workDir } = this.#options
    await mkdir(workDir, { recursive: true, mode: 0o700 })
    const isShort = Buffer.byteLength(join(workDir, 'run-XXXXXX', SOCKET)) <= LONGEST_SOCKET
    const path = await mkdtemp(isShort ? join(workDir, 'run-') : join(await realpath(tmpdir()), 'hearth-'))
    return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
  }
}

async function writeInput(
  folder: string,
  { texts = {} }: CatalogTool,
  input: Buffer,
  value: Record<string, unknown>,
): Promise<string> {
  const own = join(folder, 'input')
  await mkdir(own)
  // The user of the sandbox reads it, and reaches it only through its mount.
  await chmod(own, 0o755)
  const files = new Map<string, string | Buffer>([['input.json', input]])
  for (const [field, name] of Object.entries(texts)) {
    const text = value[field]
    if (typeof text === 'string') files.set(name, text)
  }
  for (const [name, content] of files) await writeFile(join(own, name), content, { mode: 0o444 })
  return own
}
