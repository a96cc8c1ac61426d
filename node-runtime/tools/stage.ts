import { constants } from 'node:fs'
import { chmod, mkdir, mkdtemp, open, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { runProgram } from '../../platform/processes/run-program.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import type { StartedTool, ToolDriver } from './driver.ts'
import { fetchFiles, openEgress, type EgressAccess } from './egress.ts'

const SOCKET = 'egress.sock'
const INPUT = 'input.json'
/** The maximum length of a Unix socket path that every system accepts. */
const MAX_SOCKET = 100
const POLL_INTERVAL_MS = 2
/** A tool that hasn't opened its input within this time is restarted. */
const OPEN_INPUT_TIMEOUT_MS = 2_000
/** The time limit of a tool while it waits for its input; the actual limit isn't known yet. */
const INPUT_TIMEOUT_S = 3_600

/** A tool and its program's folder. */
export interface InstalledTool {
  tool: CatalogTool
  program: string | undefined
}

export interface StageOptions {
  driver: ToolDriver
  /** The folder for the files of requests. */
  workDir: string
  outside: EgressAccess
}

/** The files, proxy and program of one run. Disposing it waits until all of them are gone. */
export class Stage implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack
  readonly #options: StageOptions
  readonly #installed: InstalledTool
  readonly #input: string
  readonly #egress: string | undefined
  #started: StartedTool | undefined
  #isOver = false

  private constructor(
    stack: AsyncDisposableStack,
    options: StageOptions,
    installed: InstalledTool,
    paths: { input: string; egress: string | undefined },
  ) {
    this.#stack = stack
    this.#options = options
    this.#installed = installed
    this.#input = paths.input
    this.#egress = paths.egress
  }

  static async open(options: StageOptions, installed: InstalledTool): Promise<Stage> {
    await using stack = new AsyncDisposableStack()
    const folder = await makeFolder(options.workDir)
    stack.defer(() => rm(folder, { recursive: true, force: true }))
    const input = join(folder, 'input')
    await mkdir(input)
    // The sandbox's user must be able to read this folder, and can reach it only through its mount.
    await chmod(input, 0o755)
    const socket = join(folder, SOCKET)
    const proxy = stack.use(await openEgress(options.outside, installed.tool, socket))
    return new Stage(stack.move(), options, installed, { input, egress: proxy && socket })
  }

  /** True while the program is waiting for its input. */
  get isWaiting(): boolean {
    return this.#started !== undefined && !this.#isOver
  }

  /** Starts the program ahead of its input. It blocks when it opens its first file, which we replace with a pipe. */
  async startAhead(): Promise<void> {
    const pipe = join(this.#input, firstFile(this.#installed.tool))
    await runProgram('mkfifo', ['-m', '0644', pipe])
    await this.#start(INPUT_TIMEOUT_S)
  }

  /** Passes the input to the program and returns the running tool. */
  async begin(
    input: Buffer,
    value: Record<string, unknown>,
    { timeS, signal }: { timeS: number; signal: AbortSignal },
  ): Promise<StartedTool> {
    const { tool } = this.#installed
    await fetchFiles(this.#options.outside, { tool, value, folder: this.#input, signal })
    const files = new Map<string, string | Buffer>([[INPUT, input]])
    for (const [field, name] of Object.entries(tool.texts ?? {})) {
      const text = value[field]
      if (typeof text === 'string') files.set(name, text)
    }
    const waiting = this.#started
    const first = firstFile(tool)
    for (const [name, content] of files) {
      if (waiting && name === first) continue
      await writeFile(join(this.#input, name), content)
      await chmod(join(this.#input, name), 0o444)
    }
    if (!waiting) return this.#start(timeS)
    await this.#feed(join(this.#input, first), files.get(first) ?? '')
    return waiting
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isWaiting) this.#started?.kill()
    await this.#stack.disposeAsync()
  }

  async #start(timeS: number): Promise<StartedTool> {
    const { tool, program } = this.#installed
    const run = { tool, program, input: this.#input, egress: this.#egress, timeS }
    const started = await this.#options.driver.start(run)
    this.#started = started
    this.#stack.defer(async () => void (await started.gone))
    void started.exited.then(() => (this.#isOver = true))
    return started
  }

  /** Writes to the pipe once the program has opened it. */
  async #feed(pipe: string, content: string | Buffer): Promise<void> {
    const deadline = performance.now() + OPEN_INPUT_TIMEOUT_MS
    for (;;) {
      try {
        // This fails immediately if the pipe has no reader.
        await using _reader = await open(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
        // If the program dies now, the writer would otherwise wait forever for another reader.
        const guard = await open(pipe, constants.O_RDWR)
        await using writer = await open(pipe, constants.O_WRONLY)
        await guard.close()
        return await writer.writeFile(content)
      } catch (err) {
        const isEarly = (err as { code?: string }).code === 'ENXIO'
        if (!isEarly || this.#isOver || performance.now() > deadline) throw err
      }
      await sleep(POLL_INTERVAL_MS)
    }
  }
}

/** Returns the file that the program opens first: its code or its input. */
const firstFile = ({ texts = {} }: CatalogTool): string => Object.values(texts)[0] ?? INPUT

async function makeFolder(workDir: string): Promise<string> {
  await mkdir(workDir, { recursive: true, mode: 0o700 })
  const isShort = Buffer.byteLength(join(workDir, 'run-XXXXXX', SOCKET)) <= MAX_SOCKET
  return mkdtemp(isShort ? join(workDir, 'run-') : join(await realpath(tmpdir()), 'hearth-'))
}
