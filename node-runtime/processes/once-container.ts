import type { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'

const POLL_INTERVAL_MS = 10
const RETRY_DELAY_MS = 500
/**
 * The grace period after the output ends; past it the container counts as exited even if the engine says it's running.
 */
const EXIT_TIMEOUT_MS = 5_000
const KILLED = 137

/** A container for one run. It is removed after the run. */
export class OnceContainer {
  readonly id: string
  readonly stdout: Readable
  readonly stderr: Readable
  readonly exited: Promise<{ code: number }>
  /** Settles once the engine has removed the container. */
  readonly gone: Promise<void>
  /** The message that explains why the engine ended it. */
  excess: string | undefined
  readonly #container: Docker.Container

  constructor(
    container: Docker.Container,
    {
      attached,
      output,
      limitMb,
    }: {
      attached: NodeJS.ReadableStream
      output: { stdout: PassThrough; stderr: PassThrough }
      limitMb: number
    },
    afterwards: () => void,
  ) {
    this.id = container.id
    this.stdout = output.stdout
    this.stderr = output.stderr
    this.#container = container
    const ended = new Promise<void>((resolve) => {
      for (const event of ['end', 'close', 'error'] as const) attached.once(event, () => resolve())
    })
    // The engine resets the connection if a tool exits at once.
    attached.on('error', () => {})
    this.exited = ended.then(async () => {
      const code = await this.#exitCode(limitMb)
      output.stdout.end()
      output.stderr.end()
      return { code }
    })
    this.gone = this.exited.then(() => this.#remove()).finally(afterwards)
  }

  kill(): void {
    // The container may have exited already.
    this.#container.kill({ signal: 'SIGKILL' }).catch(() => {})
  }

  async #remove(): Promise<void> {
    for (;;) {
      try {
        return await this.#container.remove({ force: true, v: true })
      } catch (err) {
        if ((err as { statusCode?: number }).statusCode === 404) return
        await sleep(RETRY_DELAY_MS)
      }
    }
  }

  /** Polls for the exit code after the end of the output. Podman's `wait` polls too slowly. */
  async #exitCode(limitMb: number): Promise<number> {
    const deadline = performance.now() + EXIT_TIMEOUT_MS
    for (;;) {
      try {
        const { State } = await this.#container.inspect()
        if (State.OOMKilled) this.excess = `it exceeded its memory limit of ${limitMb} MB`
        if (!State.Running && State.Status !== 'stopping') return State.ExitCode
      } catch (err) {
        if ((err as { statusCode?: number }).statusCode === 404) return KILLED
      }
      if (performance.now() > deadline) return KILLED
      await sleep(POLL_INTERVAL_MS)
    }
  }
}
