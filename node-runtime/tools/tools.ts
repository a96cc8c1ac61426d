import { availableParallelism } from 'node:os'
import { timeLimitOf, toolKey } from '../../domain/tools/catalog.ts'
import type { Logger } from '../../platform/log.ts'
import { compileWeighed, faultsOf, type CompiledSchema } from '../../platform/schema-checks/check.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import type { StartedTool, ToolDriver } from './driver.ts'
import { ToolPool } from './pool.ts'
import { resultOf } from './run-tool.ts'
import { type InstalledTool, Stage, type StageOptions } from './stage.ts'
import { ToolError } from './tool-error.ts'
import { ToolTurns } from './turns.ts'

export interface ToolsOptions extends Omit<StageOptions, 'driver'> {
  tools: readonly InstalledTool[]
  /** Undefined if this machine can't confine tools. */
  driver: ToolDriver | undefined
  /** The number of programs per tool in use that are started ahead of time and wait for input. */
  pool: number
  log: Logger
}

const AT_ONCE = 2 * Math.max(2, availableParallelism())
/** The `turn` of requests without an account, which gateways and workers before 0.13 send. */
const NO_ACCOUNT = ''

/**
 * The tools of this node. Each request starts a confined process of its tool, which ends with the result. No state
 * survives between requests.
 */
export class Tools implements AsyncDisposable {
  readonly turns = new ToolTurns(AT_ONCE)
  readonly #options: ToolsOptions
  readonly #tools: Map<string, InstalledTool>
  readonly #stopping = new AbortController()
  readonly #running = new Map<Promise<unknown>, string>()
  readonly #pool: ToolPool
  readonly #ending = new Set<Promise<void>>()

  constructor(options: ToolsOptions) {
    this.#options = options
    const { driver, pool } = options
    this.#pool = new ToolPool(driver ? pool : 0, async (installed) => {
      if (!driver) throw new Error('this node has no driver for tools')
      const stage = await Stage.open({ ...options, driver }, installed)
      try {
        await stage.startAhead()
        return stage
      } catch (err) {
        await stage[Symbol.asyncDispose]()
        throw err
      }
    })
    this.#tools = new Map(
      options.driver ? options.tools.map((one) => [toolKey(one.tool.slug), one] as const) : [],
    )
  }

  /** The Python environments that the tools need. */
  get environments(): Set<string> {
    return new Set([...this.#tools.values()].flatMap(({ tool }) => tool.python_env ?? []))
  }

  /** Replaces the operators' tools. They override tools of the catalog with the same name. */
  offer(ofOperators: readonly CatalogTool[]): void {
    const { driver, tools } = this.#options
    if (!driver) return
    const images = driver.runsImages ? ofOperators : []
    const named = [...tools, ...images.map((tool) => ({ tool, program: undefined }))]
    this.#tools.clear()
    for (const one of named) this.#tools.set(toolKey(one.tool.slug), one)
  }

  has(modelKey: string): boolean {
    return this.#tools.has(modelKey)
  }

  /** Returns the fields of a tool's input that name files. */
  fileFieldsOf(modelKey: string): string[] {
    return Object.keys(this.#tools.get(modelKey)?.tool.files ?? {})
  }

  /** Validates an input against the schema of its tool. Returns a message if it is invalid, undefined otherwise. */
  refusalOf(modelKey: string, input: Record<string, unknown>): string | undefined {
    const installed = this.#tools.get(modelKey)
    return installed && inputRefusal(installed.tool, input)
  }

  /** Returns the input field that sets a tool's time limit, if it has one. */
  timeFieldOf(modelKey: string): string | undefined {
    return this.#tools.get(modelKey)?.tool.time_field
  }

  /** Reports the tools as models that are always loaded: a request needs nothing but this node. */
  report(): NodeModel[] {
    const running = [...this.#running.values()]
    return [...this.#tools.keys()].map((model_key) => ({
      model_key,
      state: 'idle',
      in_flight: running.filter((key) => key === model_key).length,
      memory_mb: 0,
    }))
  }

  /**
   * Runs a tool with this input and returns its result, both as JSON. The requests of one `turn` never occupy the whole
   * node. Throws `ToolError`, or the signal's reason.
   */
  async run(modelKey: string, input: Buffer, signal: AbortSignal, turn = NO_ACCOUNT): Promise<Buffer> {
    const installed = this.#tools.get(modelKey)
    const { driver } = this.#options
    if (!installed || !driver) throw new ToolError('this node does not have the tool', { isOfNode: true })
    const ending = AbortSignal.any([signal, this.#stopping.signal])
    const work = this.#run(installed, driver, { input, signal: ending, turn })
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
    await this.#pool[Symbol.asyncDispose]()
  }

  async #run(
    installed: InstalledTool,
    driver: ToolDriver,
    { input, signal, turn }: { input: Buffer; signal: AbortSignal; turn: string },
  ): Promise<Buffer> {
    const { tool } = installed
    const stack = new AsyncDisposableStack()
    try {
      stack.use(await this.turns.takeRun(turn, signal))
      const value = JSON.parse(input.toString()) as Record<string, unknown>
      const timeS = timeLimitOf(tool, value)
      const begun = await this.#begin(installed, { driver, stack, input, value, timeS, signal })
      return await resultOf(tool, begun, { timeS, signal })
    } catch (err) {
      // The launcher could not confine the tool, which is not the caller's fault.
      if (err instanceof ToolError && err.isOfNode && err.cause === undefined && !signal.aborted)
        emit(this.#options.log, 'tool.start_failed', { slug: tool.slug, err })
      throw err
    } finally {
      // The result doesn't wait for the cleanup of the run, but the next run does.
      const ending = stack.disposeAsync().finally(() => this.#ending.delete(ending))
      this.#ending.add(ending)
      this.#pool.refill(installed)
    }
  }

  async #begin(
    installed: InstalledTool,
    { driver, stack, input, value, ...options }: StartRequest,
  ): Promise<StartedTool> {
    const { log } = this.#options
    const { slug } = installed.tool
    const waiting = this.#pool.take(slug)
    if (waiting) {
      stack.use(waiting)
      const begun = await waiting.begin(input, value, options).catch((err: unknown) => {
        if (err instanceof ToolError) throw err
        emit(log, 'tool.start_failed', { slug, err })
        return undefined
      })
      if (begun) return begun
    }
    try {
      const stage = stack.use(await Stage.open({ ...this.#options, driver }, installed))
      return await stage.begin(input, value, options)
    } catch (cause) {
      options.signal.throwIfAborted()
      if (cause instanceof ToolError) throw cause
      emit(log, 'tool.start_failed', { slug, err: cause })
      throw new ToolError('this node could not start the tool', { isOfNode: true, cause })
    }
  }
}

interface StartRequest {
  driver: ToolDriver
  stack: AsyncDisposableStack
  input: Buffer
  value: Record<string, unknown>
  timeS: number
  signal: AbortSignal
}

const compiled = new WeakMap<CatalogTool, CompiledSchema>()

/** Validates an input against the schema of its tool. Returns a message if it is invalid, undefined otherwise. */
function inputRefusal(tool: CatalogTool, input: Record<string, unknown>): string | undefined {
  const schema = compiled.get(tool) ?? compileWeighed(tool.input_schema)
  compiled.set(tool, schema)
  const [fault] = faultsOf(schema.validate, input)
  if (!fault) return undefined
  const { instancePath, message = 'is not valid', params } = fault
  const more = (params as { additionalProperty?: unknown }).additionalProperty
  const named = typeof more === 'string' ? `: "${more}"` : ''
  return `the input of the tool ${tool.slug} is invalid: ${instancePath || 'the input'} ${message}${named}`
}
