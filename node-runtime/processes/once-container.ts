import type { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'

const POLL_INTERVAL_MS = 10
const RETRY_DELAY_MS = 500
/** An engine that has ended the output of a container and still calls it running is not believed for longer. */
const ENDING_MS = 5_000
const KILLED = 137

/** A container for one run, which is removed after its end. */
export class OnceContainer {
  readonly id: string
  readonly stdout: Readable
  readonly stderr: Readable
  readonly exited: Promise<{ code: number }>
  /** Settles once the engine has removed it. */
  readonly gone: Promise<void>
  /** The reason why the engine ended it, in words. */
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
    // A tool that ends at once makes the engine reset the connection.
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
    // A container that has exited meanwhile needs no signal.
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

  /** The engine's own `wait` answers late on Podman, which polls; the output has ended already. */
  async #exitCode(limitMb: number): Promise<number> {
    const deadline = performance.now() + ENDING_MS
    for (;;) {
      try {
        const { State } = await this.#container.inspect()
        if (State.OOMKilled) this.excess = `it used more memory than its ${limitMb} MB`
        if (!State.Running && State.Status !== 'stopping') return State.ExitCode
      } catch (err) {
        if ((err as { statusCode?: number }).statusCode === 404) return KILLED
      }
      if (performance.now() > deadline) return KILLED
      await sleep(POLL_INTERVAL_MS)
    }
  }
}
