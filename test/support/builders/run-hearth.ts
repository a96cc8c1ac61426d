import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { BARE_ENV } from '../compile-cache.ts'
import { temporaryFolder } from './temporary-folder.ts'

const CLI = fileURLToPath(new URL('../../../cli/hearth.ts', import.meta.url))

export interface CliResult {
  code: number
  out: string
  err: string
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv
  stdin?: string
}

/** Runs `hearth` in a separate process, with its own configuration, state and data directory. */
export class HearthRunner implements Disposable {
  readonly #folder = temporaryFolder()
  readonly #env: NodeJS.ProcessEnv

  constructor(env: NodeJS.ProcessEnv = {}) {
    const { path } = this.#folder
    this.#env = {
      ...BARE_ENV,
      HEARTH_DATA_DIR: path,
      XDG_CONFIG_HOME: path,
      XDG_STATE_HOME: path,
      ...env,
    }
  }

  get folder(): string {
    return this.#folder.path
  }

  /** Starts a command that a test observes while it runs. */
  start(args: readonly string[], { env = {} }: Pick<RunOptions, 'env'> = {}): ChildProcess {
    return spawn(process.execPath, [CLI, ...args], { env: { ...this.#env, ...env }, cwd: this.folder })
  }

  /** Runs a command until it exits. */
  async run(args: readonly string[], { env = {}, stdin = '' }: RunOptions = {}): Promise<CliResult> {
    const child = spawn(process.execPath, [CLI, ...args], { env: { ...this.#env, ...env }, cwd: this.folder })
    child.stdin.on('error', () => {})
    child.stdin.end(stdin)
    const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? -1)))
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return { code, out, err }
  }

  /** Runs a command that must succeed, and returns its `--json` output. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read responses of every shape
  async json(args: readonly string[], options: RunOptions = {}): Promise<any> {
    const { code, out, err } = await this.run([...args, '--json'], options)
    if (code !== 0) throw new Error(`hearth ${args.join(' ')} ended with ${code}: ${err}`)
    return JSON.parse(out)
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]()
  }
}
