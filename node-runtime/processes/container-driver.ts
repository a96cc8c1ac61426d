import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import Docker from 'dockerode'
import { containerOptions, type ContainerSpec, fixedImage } from './container-options.ts'
import { ManagedContainer } from './managed-container.ts'

const PROBE_MS = 3_000
const OWNER_LABEL = 'hearth.owner'

/**
 * Runs containers over the engine's API. They have a label of this node, by which its next run
 * finds and ends leftovers.
 */
export class ContainerDriver {
  readonly #docker: Docker
  readonly #owner: string
  readonly #running = new Set<ManagedContainer>()

  private constructor(docker: Docker, stateDir: string) {
    this.#docker = docker
    this.#owner = createHash('sha256').update(resolve(stateDir)).digest('hex').slice(0, 12)
  }

  /** Connects to the engine at a Unix socket; undefined when none responds. */
  static async connect(options: {
    socketPath: string
    stateDir: string
  }): Promise<ContainerDriver | undefined> {
    const docker = new Docker({ socketPath: options.socketPath })
    try {
      await new Docker({ socketPath: options.socketPath, timeout: PROBE_MS }).ping()
      return new ContainerDriver(docker, options.stateDir)
    } catch {
      return undefined
    }
  }

  get running(): readonly ManagedContainer[] {
    return [...this.#running]
  }

  async start(spec: ContainerSpec): Promise<ManagedContainer> {
    const image = fixedImage(spec.image)
    await this.#ensureImage(image)
    const socketDir = await mkdtemp(join(tmpdir(), 'hearth-'))
    const removeFiles = () => rm(socketDir, { recursive: true, force: true })
    try {
      const name = `hearth-${this.#owner}-${safeName(spec.name)}`
      const labels = { [OWNER_LABEL]: this.#owner, 'hearth.name': spec.name }
      // A leftover under this name is ours and no longer in use.
      await this.#remove(name)
      const container = await this.#docker.createContainer(
        containerOptions(spec, { name, labels, socketDir }),
      )
      const output = { stdout: new PassThrough(), stderr: new PassThrough() }
      try {
        const stream = await container.attach({ stream: true, stdout: true, stderr: true })
        this.#docker.modem.demuxStream(stream, output.stdout, output.stderr)
        await container.start()
      } catch (err) {
        await this.#remove(name)
        throw err
      }
      const managed = new ManagedContainer({ name: spec.name, container, output, socketDir }, async () => {
        this.#running.delete(managed)
        await removeFiles()
      })
      this.#running.add(managed)
      return managed
    } catch (err) {
      await removeFiles()
      throw new Error(`the container could not be started: ${reasonOf(err)}`, { cause: err })
    }
  }

  /** Ends the containers that an earlier run of this node left. */
  async reap(): Promise<number> {
    const filters = { label: [`${OWNER_LABEL}=${this.#owner}`] }
    const left = await this.#docker.listContainers({ all: true, filters })
    const known = new Set(this.running.map(({ id }) => id))
    const orphans = left.filter(({ Id }) => !known.has(Id))
    await Promise.all(orphans.map(({ Id }) => this.#remove(Id)))
    return orphans.length
  }

  /** Stops all containers at once: TERM, then KILL after `graceMs`. */
  async stopAll(options: { graceMs: number }): Promise<void> {
    await Promise.all(this.running.map((managed) => managed.stop(options)))
  }

  async #ensureImage(image: string): Promise<void> {
    const isHere = await this.#docker
      .getImage(image)
      .inspect()
      .then(
        () => true,
        (err: unknown) => {
          if (statusOf(err) === 404) return false
          throw err
        },
      )
    if (isHere) return
    try {
      const progress = await this.#docker.pull(image)
      await new Promise<void>((done, fail) =>
        this.#docker.modem.followProgress(progress, (err, steps: { error?: string }[] | undefined) => {
          const refusal = steps?.find(({ error }) => error !== undefined)?.error
          if (err ?? refusal) fail(err ?? new Error(refusal))
          else done()
        }),
      )
    } catch (err) {
      throw new Error(`the image ${image} is not on this machine and cannot be fetched: ${reasonOf(err)}`, {
        cause: err,
      })
    }
  }

  async #remove(idOrName: string): Promise<void> {
    try {
      await this.#docker.getContainer(idOrName).remove({ force: true, v: true })
    } catch (err) {
      if (statusOf(err) !== 404) throw err
    }
  }
}

const safeName = (name: string): string => name.replaceAll(/[^a-zA-Z0-9_.-]/g, '_').slice(0, 100)

const statusOf = (err: unknown): number | undefined => (err as { statusCode?: number }).statusCode

/** Engines put the useful message into the body of the response. */
function reasonOf(err: unknown): string {
  const { json, message } = err as { json?: { message?: string }; message?: string }
  return (json?.message ?? message ?? String(err)).slice(0, 500)
}
