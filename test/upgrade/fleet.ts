import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { request } from 'undici'
import { freePorts } from '../../platform/free-ports.ts'
import { eventually } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { type BuilderClient, builderClient } from '../support/servers/clients/builder-client.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'
import { startTemporal, type TestTemporal } from '../support/servers/temporal.ts'
import type { Checkout } from './checkouts.ts'

const OPERATIONS_KEY = 'operations-key-of-the-upgrade-test'
const STOP_MS = 15_000

type Main = 'control' | 'api' | 'gate' | 'node'
const MAINS: Record<Main, string> = {
  control: 'workers/control.ts',
  api: 'api/main.ts',
  gate: 'workers/gate.ts',
  node: 'workers/node.ts',
}

interface Line {
  msg?: string
  base_url?: string
  level: number
}

/** One process of one version. */
interface Process {
  readonly main: Main
  readonly version: string
  readonly child: ChildProcess
  /** Its output, for error reports. */
  readonly lines: string[]
}

/** PostgreSQL, Temporal and an object folder, shared by the processes of several versions. */
export class Fleet implements AsyncDisposable {
  readonly database: TestDatabase
  readonly temporal: TestTemporal
  readonly #stack: AsyncDisposableStack
  readonly #env: NodeJS.ProcessEnv
  readonly #folder: string
  readonly #processes: Process[] = []
  /** Gateways that respond, newest first. */
  readonly #gateways: { process: Process; baseUrl: string }[] = []
  readonly #gatePorts: number[] = []
  #apiKey = ''
  #accountId = ''

  private constructor(
    stack: AsyncDisposableStack,
    parts: { database: TestDatabase; temporal: TestTemporal; env: NodeJS.ProcessEnv; folder: string },
  ) {
    this.#stack = stack
    this.database = parts.database
    this.temporal = parts.temporal
    this.#env = parts.env
    this.#folder = parts.folder
  }

  static async open(): Promise<Fleet> {
    await using stack = new AsyncDisposableStack()
    const database = stack.use(await startDatabase({ isEmpty: true }))
    const temporal = stack.use(await startTemporal())
    const { path: folder } = stack.use(temporaryFolder())
    const [gatePort = 0] = await freePorts(1)
    const env = {
      ...process.env,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      HEARTH_DATA_DIR: folder,
      HEARTH_OBJECT_DIR: join(folder, 'objects'),
      HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
      HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 5).toString('base64'),
      HEARTH_PORT: '0',
      HEARTH_GATE_URL: `http://127.0.0.1:${gatePort}`,
      HEARTH_NODE_MEMORY_MB: '2000',
      // A release may have other environments than this checkout; installing PyTorch would outlast the test.
      HEARTH_NODE_PREPARE: 'none',
    }
    mkdirSync(env.HEARTH_OBJECT_DIR)
    const fleet = new Fleet(stack.move(), { database, temporal, env, folder })
    const balancer = await balance(gatePort, () => fleet.#gatePorts)
    fleet.#stack.defer(() => void balancer.close())
    return fleet
  }

  /** The Builder API of the first gateway that answers. */
  readonly api: BuilderClient = {
    get: (path) => this.#anywhere((client) => client.get(path)),
    post: (path, body) => this.#anywhere((client) => client.post(path, body)),
    upload: (path, file, fields) => this.#anywhere((client) => client.upload(path, file, fields)),
  }

  get ready(): { base_url: string; operations_key: string } {
    return { base_url: this.#gateways[0]?.baseUrl ?? '', operations_key: OPERATIONS_KEY }
  }

  /**
   * Starts all processes of a version next to the running ones, in the order of docs/upgrading.md; waits for its node.
   */
  async start(version: Checkout): Promise<void> {
    this.#spawn(version, 'control')
    const gateway = this.#spawn(version, 'api')
    const baseUrl = await eventually(`a gateway of ${version.name}`, () => this.#baseUrlOf(gateway))
    this.#gateways.unshift({ process: gateway, baseUrl })
    if (this.#apiKey === '') await this.#makeAccount()

    const [gatePort = 0] = await freePorts(1)
    this.#spawn(version, 'gate', { HEARTH_GATE_PORT: String(gatePort) })
    this.#gatePorts.unshift(gatePort)
    const { node_token: token } = await this.#operate<{ node_token: string }>('POST', '/admin/node-tokens', {
      account_id: this.#accountId,
      sharing: 'shared',
    })
    const before = await this.#online()
    this.#spawn(version, 'node', {
      HEARTH_GATEWAY_URL: baseUrl,
      HEARTH_NODE_TOKEN: token,
      HEARTH_NODE_NAME: version.name,
      HEARTH_NODE_DIR: join(this.#folder, `node-${this.#processes.length}`),
    })
    await eventually(`a node of ${version.name}`, async () => (await this.#online()) > before || undefined)
  }

  /** Stops all processes of a version as an operator would: nodes first, so that their work moves to other nodes. */
  async stop(version: Checkout): Promise<void> {
    for (const main of ['node', 'gate', 'api', 'control'] as const) {
      for (const one of this.#processes.filter(
        (each) => each.main === main && each.version === version.name,
      )) {
        if (main === 'api') this.#forget(one)
        await terminate(one)
      }
    }
  }

  /** Returns the error lines of the processes, each with its process. */
  errors(): string[] {
    return this.#processes.flatMap(({ main, version, lines }) =>
      lines.filter((line) => (parse(line)?.level ?? 50) >= 50).map((line) => `${version} ${main}: ${line}`),
    )
  }

  /** Returns whether a process of this kind and version is still running. */
  runs(version: Checkout, main: Main): boolean {
    return this.#processes.some(
      (one) =>
        one.main === main &&
        one.version === version.name &&
        one.child.exitCode === null &&
        one.child.signalCode === null,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#processes.toReversed()) await terminate(one)
    await this.#stack.disposeAsync()
  }

  #spawn(version: Checkout, main: Main, env: NodeJS.ProcessEnv = {}): Process {
    const child = spawn(process.execPath, [join(version.path, MAINS[main])], {
      cwd: version.path,
      env: {
        ...(main === 'node' ? forNode(this.#env) : this.#env),
        // The files have a new path in each run, so store the cache with them.
        NODE_COMPILE_CACHE: join(version.path, '.compile-cache'),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const lines: string[] = []
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => lines.push(line))
    const one = { main, version: version.name, child, lines }
    this.#processes.push(one)
    return one
  }

  #baseUrlOf({ child, lines, version }: Process): string | undefined {
    if (child.exitCode !== null) throw new Error(`the gateway of ${version} exited:\n${lines.join('\n')}`)
    return lines.map(parse).find((line) => line?.base_url !== undefined)?.base_url
  }

  #forget(gateway: Process): void {
    const at = this.#gateways.findIndex(({ process: one }) => one === gateway)
    if (at >= 0) this.#gateways.splice(at, 1)
  }

  async #makeAccount(): Promise<void> {
    const { account_id: id } = await this.#operate<{ account_id: string }>('POST', '/admin/accounts', {
      name: 'one',
    })
    const { api_key: key } = await this.#operate<{ api_key: string }>('POST', `/admin/accounts/${id}/keys`, {
      name: 'one',
      role: 'admin',
    })
    this.#accountId = id
    this.#apiKey = key
  }

  async #online(): Promise<number> {
    const { nodes } = await this.#operate<{ nodes: { status: string }[] }>('GET', '/admin/nodes')
    return nodes.filter(({ status }) => status === 'online').length
  }

  async #operate<T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T> {
    const { statusCode, body: answer } = await request(`${this.ready.base_url}/api/v1${path}`, {
      method,
      headers: { 'x-api-key': OPERATIONS_KEY, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (statusCode >= 300) throw new Error(`${path} answered ${statusCode}: ${text}`)
    return JSON.parse(text) as T
  }

  /** A gateway that isn't listening hasn't received the request, so send it to another one. */
  async #anywhere<T>(ask: (client: BuilderClient) => Promise<T>): Promise<T> {
    let last: unknown = new Error('no gateway is running')
    for (const { baseUrl } of this.#gateways.slice()) {
      try {
        return await ask(builderClient(baseUrl, this.#apiKey))
      } catch (err) {
        const { code, cause } = err as { code?: string; cause?: { code?: string } }
        if (code !== 'ECONNREFUSED' && cause?.code !== 'ECONNREFUSED') throw err
        last = err
      }
    }
    throw last
  }
}

/** Removes the addresses of the database and Temporal, which nodes must not have. */
const forNode = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => !/^(DATABASE_URL|TEMPORAL_|HEARTH_(OPERATIONS|ENCRYPTION|GATE_))/.test(name),
    ),
  )

async function terminate({ child }: Process): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await exited
  clearTimeout(late)
}

function parse(line: string): Line | undefined {
  try {
    return JSON.parse(line) as Line
  } catch {
    return undefined
  }
}

/** Spreads connections to one address across several servers: each goes to the first server that accepts it. */
async function balance(port: number, targets: () => readonly number[]): Promise<Server> {
  const server = createServer((client) => {
    client.on('error', () => client.destroy())
    const tryNext = ([target, ...rest]: readonly number[]): void => {
      if (target === undefined) return void client.destroy()
      const upstream = connect(target, '127.0.0.1')
      upstream.once('connect', () => {
        client.pipe(upstream).pipe(client)
        client.once('close', () => upstream.destroy())
        upstream.once('close', () => client.destroy())
      })
      upstream.on('error', () =>
        upstream.connecting || client.bytesRead === 0 ? tryNext(rest) : client.destroy(),
      )
    }
    tryNext(targets())
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}
