import { createHash } from 'node:crypto'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePackages } from '../../../../node-runtime/environments/npm-env.ts'
import { LoadDeadline } from '../../../../node-runtime/models/load-deadline.ts'
import { ModelServer } from '../../../../node-runtime/models/server.ts'
import { ProcessDriver } from '../../../../node-runtime/processes/process-driver.ts'
import { loadCatalog } from '../../../../platform/catalog.ts'
import { readConfig } from '../../../../platform/config.ts'
import { llmPython } from '../../builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import type { AnyBody } from '../api.ts'
import { realPython } from './python.ts'

/** A payload file as described to a consumer. */
export interface SentPayload {
  file: string
  size_bytes: number
  sha256: string
}

/** A model server, started as on a node, with full confinement. */
export interface StartedServer {
  server: ModelServer
  post(path: string, body: unknown): Promise<{ status: number; body: AnyBody }>
  /** Moves a payload from another server to the exchange folder of this one. */
  take(from: StartedServer, file: string): Promise<SentPayload>
  /** Writes bytes to its exchange folder. */
  put(file: string, bytes: Uint8Array): Promise<SentPayload>
  bytesOf(file: string): Promise<Buffer>
}

/** Starts model servers with their real profiles. */
export class ModelServers implements AsyncDisposable {
  readonly #folder = temporaryFolder()
  readonly #driver = new ProcessDriver({ stateDir: this.#folder.path, python: async () => realPython() })
  readonly #started: ModelServer[] = []

  /** @param flags Values that replace those of the profile's command, such as `{ '--threads': '2' }`. @param adaptersDir The folder of adapters that it may load. */
  async start(
    profileId: string,
    modelDir: string,
    flags: Readonly<Record<string, string>> = {},
    adaptersDir?: string,
  ): Promise<StartedServer> {
    const found = loadCatalog().profile(profileId)
    if (!found) throw new Error(`there is no profile ${profileId}`)
    const command = found.command.map((word, i, all) => flags[all[i - 1] ?? ''] ?? word)
    const profile = { ...found, command }
    const cacheDir = readConfig().HEARTH_CACHE_DIR
    const spec = {
      name: `server-${this.#started.length}`,
      profile,
      python: profile.python_env === null ? undefined : await llmPython(),
      packages: profile.npm_env && (await ensurePackages(profile.npm_env, { cacheDir, log: () => {} })),
      modelDir,
      ramMb: 2_000,
      adaptersDir,
    }
    using deadline = new LoadDeadline({ stallMs: profile.start_timeout_s * 1_000 })
    const stopping = new AbortController().signal
    const drivers = { process: this.#driver, container: undefined }
    const server = await ModelServer.start(drivers, spec, { deadline, stopping })
    this.#started.push(server)
    return new RunningServer(server)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#started.map((server) => server.stop({ graceMs: 0 })))
    this.#folder[Symbol.dispose]()
  }
}

class RunningServer implements StartedServer {
  readonly server: ModelServer

  constructor(server: ModelServer) {
    this.server = server
  }

  async post(path: string, body: unknown): Promise<{ status: number; body: AnyBody }> {
    const answer = await this.server.pool.request({ method: 'POST', path, body: JSON.stringify(body) })
    return { status: answer.statusCode, body: (await answer.body.json()) as AnyBody }
  }

  async take(from: StartedServer, file: string): Promise<SentPayload> {
    const bytes = await from.bytesOf(file)
    await copyFile(pathIn(from.server, file), pathIn(this.server, file))
    return sent(file, bytes)
  }

  async put(file: string, bytes: Uint8Array): Promise<SentPayload> {
    await writeFile(pathIn(this.server, file), bytes)
    return sent(file, bytes)
  }

  bytesOf(file: string): Promise<Buffer> {
    return readFile(pathIn(this.server, file))
  }
}

const pathIn = ({ exchangeDir = '' }: ModelServer, file: string): string => join(exchangeDir, file)

const sent = (file: string, bytes: Uint8Array): SentPayload => ({
  file,
  size_bytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
})
