import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import Docker from 'dockerode'
import { containerOptions, type ContainerSpec, fixedImage } from './container-options.ts'
import { ManagedContainer } from './managed-container.ts'
import { OnceContainer } from './once-container.ts'
import { type PullEvent, PullProgress } from './pull-progress.ts'

const PROBE_TIMEOUT_MS = 3_000
const OWNER_LABEL = 'hearth.owner'

/**
 * Runs containers through the engine's API. They carry this node's label, so that its next run can find and remove
 * leftovers.
 */
export class ContainerDriver {
  readonly #docker: Docker
  readonly #owner: string
  readonly #running = new Set<ManagedContainer>()
  readonly #once = new Set<OnceContainer>()
  /** By image, the pulls in progress. */
  readonly #pulling = new Map<string, Promise<void>>()

  private constructor(docker: Docker, stateDir: string) {
    this.#docker = docker
    this.#owner = createHash('sha256').update(resolve(stateDir)).digest('hex').slice(0, 12)
  }

  /** Connects to the engine at a Unix socket; returns undefined if no engine responds. */
  static async connect(options: {
    socketPath: string
    stateDir: string
  }): Promise<ContainerDriver | undefined> {
    const docker = new Docker({ socketPath: options.socketPath })
    try {
      await new Docker({ socketPath: options.socketPath, timeout: PROBE_TIMEOUT_MS }).ping()
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
    await this.pull(image)
    const socketDir = await mkdtemp(join(tmpdir(), 'hearth-'))
    const removeFiles = () => rm(socketDir, { recursive: true, force: true })
    try {
      const name = `hearth-${this.#owner}-${safeName(spec.name)}`
      const labels = { [OWNER_LABEL]: this.#owner, 'hearth.name': spec.name }
      // A leftover container with this name is ours and no longer in use.
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

  /** Returns the names of the engine's runtimes. */
  async runtimes(): Promise<string[]> {
    const { Runtimes } = (await this.#docker.info()) as { Runtimes?: Record<string, unknown> }
    return Object.keys(Runtimes ?? {})
  }

  /** Returns whether the engine has an image. */
  hasImage(image: string): Promise<boolean> {
    return this.#docker
      .getImage(image)
      .inspect()
      .then(
        () => true,
        (err: unknown) => {
          if (statusOf(err) === 404) return false
          throw err
        },
      )
  }

  /** Pulls an image unless the engine has it. Concurrent callers share one pull, and the first one's `onProgress`. */
  pull(image: string, onProgress: (share: number) => void = () => {}): Promise<void> {
    const pulling =
      this.#pulling.get(image) ?? this.#pull(image, onProgress).finally(() => this.#pulling.delete(image))
    this.#pulling.set(image, pulling)
    return pulling
  }

  /** Returns the id of an image with the files of an archive. Builds it unless the engine has it. */
  async builtImage(name: string, archive: string): Promise<string> {
    const idOf = () =>
      this.#docker
        .getImage(name)
        .inspect()
        .then(
          ({ Id }) => Id,
          () => undefined,
        )
    const known = await idOf()
    if (known !== undefined) return known
    const progress = await this.#docker.importImage(archive)
    const steps = await this.#followed(progress)
    // Not every engine accepts a name on import.
    const [repo = '', tag = ''] = name.split(/:(?=[^:]*$)/)
    const id = steps.findLast(({ status }) => /^(sha256:)?[0-9a-f]{12,}\s*$/.test(status ?? ''))?.status ?? ''
    await this.#docker.getImage(id.trim()).tag({ repo, tag })
    const built = await idOf()
    if (built === undefined) throw new Error(`the engine did not store the image ${name}`)
    return built
  }

  /** Starts a container for one run and reads its output from the start. */
  async startOnce(options: Docker.ContainerCreateOptions, limitMb: number): Promise<OnceContainer> {
    const image = options.Image ?? ''
    if (!image.startsWith('sha256:')) await this.pull(fixedImage(image))
    try {
      const container = await this.#docker.createContainer({
        ...options,
        name: `hearth-${this.#owner}-tool-${randomUUID()}`,
        Labels: { [OWNER_LABEL]: this.#owner },
      })
      const output = { stdout: new PassThrough(), stderr: new PassThrough() }
      try {
        const attached = await container.attach({ stream: true, stdout: true, stderr: true })
        this.#docker.modem.demuxStream(attached, output.stdout, output.stderr)
        const once = new OnceContainer(container, { attached, output, limitMb }, () =>
          this.#once.delete(once),
        )
        this.#once.add(once)
        await container.start()
        return once
      } catch (err) {
        await this.#remove(container.id)
        throw err
      }
    } catch (err) {
      throw new Error(`the container could not be started: ${reasonOf(err)}`, { cause: err })
    }
  }

  /** Removes the containers that an earlier run of this node left behind. */
  async reap(): Promise<number> {
    const filters = { label: [`${OWNER_LABEL}=${this.#owner}`] }
    const left = await this.#docker.listContainers({ all: true, filters })
    const known = new Set([...this.running, ...this.#once].map(({ id }) => id))
    const orphans = left.filter(({ Id }) => !known.has(Id))
    await Promise.all(orphans.map(({ Id }) => this.#remove(Id)))
    return orphans.length
  }

  /** Stops all containers in parallel: TERM, then KILL after `graceMs`. */
  async stopAll(options: { graceMs: number }): Promise<void> {
    for (const once of this.#once) once.kill()
    await Promise.all([
      ...this.running.map((managed) => managed.stop(options)),
      ...[...this.#once].map(({ gone }) => gone),
    ])
  }

  async #pull(image: string, onProgress: (share: number) => void): Promise<void> {
    if (await this.hasImage(image)) return
    const progress = new PullProgress()
    try {
      await this.#followed(await this.#docker.pull(image), (event) => onProgress(progress.note(event)))
    } catch (err) {
      throw new Error(`the image ${image} is not on this machine and cannot be pulled: ${reasonOf(err)}`, {
        cause: err,
      })
    }
  }

  #followed(
    progress: NodeJS.ReadableStream,
    onEvent: (event: PullEvent) => void = () => {},
  ): Promise<PullEvent[]> {
    return new Promise((done, fail) =>
      this.#docker.modem.followProgress(
        progress,
        (err, steps: PullEvent[] | undefined) => {
          const refusal = steps?.find(({ error }) => error !== undefined)?.error
          if (err ?? refusal) fail(err ?? new Error(refusal))
          else done(steps ?? [])
        },
        onEvent,
      ),
    )
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

/** Returns the message in the response body, which is the useful one. */
function reasonOf(err: unknown): string {
  const { json, message } = err as { json?: { message?: string }; message?: string }
  return (json?.message ?? message ?? String(err)).slice(0, 500)
}
