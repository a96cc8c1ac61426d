import type { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import type { ProcessExit } from './process-driver.ts'

const POLL_INTERVAL_MS = 500

interface ContainerParts {
  name: string
  container: Docker.Container
  output: { stdout: PassThrough; stderr: PassThrough }
  /** The folder on this machine that contains the container's socket. */
  socketDir: string
}

/** A running container. It is removed with all its processes before `exited` settles. */
export class ManagedContainer {
  readonly name: string
  readonly id: string
  readonly socketDir: string
  readonly stdout: Readable
  readonly stderr: Readable
  readonly exited: Promise<ProcessExit>
  readonly #container: Docker.Container
  #pid: number | undefined
  #gone = false

  constructor({ name, container, output, socketDir }: ContainerParts, afterwards: () => Promise<void>) {
    this.name = name
    this.id = container.id
    this.socketDir = socketDir
    this.stdout = output.stdout
    this.stderr = output.stderr
    this.#container = container
    this.exited = this.#end(output, afterwards)
  }

  /** Returns the process id on this machine; undefined once it has exited. */
  async pid(): Promise<number | undefined> {
    if (this.#gone) return undefined
    this.#pid ??= await this.#container.inspect().then(
      ({ State }) => State.Pid || undefined,
      () => undefined,
    )
    return this.#gone ? undefined : this.#pid
  }

  /** Sends TERM, then KILL after `graceMs`; resolves when the container is removed. */
  async stop({ graceMs }: { graceMs: number }): Promise<ProcessExit> {
    if (!this.#gone) {
      await this.#signal('SIGTERM')
      const timer = setTimeout(() => void this.#signal('SIGKILL'), graceMs)
      try {
        return await this.exited
      } finally {
        clearTimeout(timer)
      }
    }
    return this.exited
  }

  async #signal(signal: NodeJS.Signals): Promise<void> {
    // The container may have exited already.
    await this.#container.kill({ signal }).catch(() => {})
  }

  async #end(output: ContainerParts['output'], afterwards: () => Promise<void>): Promise<ProcessExit> {
    const code = await this.#wait()
    this.#gone = true
    for (;;) {
      try {
        await this.#container.remove({ force: true, v: true })
        break
      } catch (err) {
        if ((err as { statusCode?: number }).statusCode === 404) break
        await sleep(POLL_INTERVAL_MS)
      }
    }
    output.stdout.end()
    output.stderr.end()
    await afterwards()
    return { code }
  }

  /** Waits for the exit status from the engine, and retries after a restart of the engine. */
  async #wait(): Promise<number> {
    for (;;) {
      try {
        const { StatusCode } = (await this.#container.wait()) as { StatusCode: number }
        return StatusCode
      } catch (err) {
        if ((err as { statusCode?: number }).statusCode === 404) return 137
        await sleep(POLL_INTERVAL_MS)
      }
    }
  }
}
