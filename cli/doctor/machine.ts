import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { cpus, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Config } from '../../platform/config.ts'
import { size } from '../amounts.ts'
import { readReady } from '../platform.ts'
import { profilesFile } from '../profiles.ts'
import { type Check, ok, warning, wrong } from './check.ts'

const NODE_MAJOR = 24
const PYTHONS = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python']
const OLDEST_PYTHON = [3, 10] as const
const GB = 1e9
const LITTLE_DISK = 1 * GB
/** The Python environment for language models takes 5 GB. */
const WANTED_DISK = 10 * GB
const WANTED_MEMORY = 2 * GB

/** Checks the requirements of `npm start` and of a node on this machine. */
export async function checkMachine(config: Config): Promise<Check[]> {
  return [
    checkNode(),
    await checkPython(),
    ...(await checkDisks(config)),
    checkMemory(),
    await checkPort(config),
    checkDataDirectory(config),
    ...checkProfiles(),
  ]
}

function checkNode(): Check {
  const { version } = process
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return ok('Node', `running ${version}`)
  return wrong(
    'Node',
    `running ${version}; Node ${NODE_MAJOR} is required`,
    '`npx hearth` brings its own: use it instead of `node cli/hearth.ts`',
  )
}

async function checkPython(): Promise<Check> {
  for (const command of PYTHONS) {
    const version = await promisify(execFile)(command, ['--version']).then(
      ({ stdout, stderr }) => /Python (\d+)\.(\d+)\S*/.exec(stdout || stderr),
      () => null,
    )
    const [text, major, minor] = version ?? []
    const [wantedMajor, wantedMinor] = OLDEST_PYTHON
    if (Number(major) === wantedMajor && Number(minor) >= wantedMinor)
      return ok('Python', `${text} as ${command}`)
  }
  return warning(
    'Python',
    `no Python ${OLDEST_PYTHON.join('.')} or newer is on the PATH, so this machine cannot train models`,
    'install Python 3.10 or newer with its venv module',
  )
}

async function checkDisks({ HEARTH_DATA_DIR: data, HEARTH_CACHE_DIR: cache }: Config): Promise<Check[]> {
  const checks = await Promise.all([
    checkDisk('Data disk', data, 'HEARTH_DATA_DIR'),
    checkDisk('Tools disk', cache, 'HEARTH_CACHE_DIR'),
  ])
  return checks
}

async function checkDisk(about: string, folder: string, setting: string): Promise<Check> {
  const { bavail, bsize } = await statfs(nearest(folder))
  const free = bavail * bsize
  const message = `${size(free)} free at ${folder}`
  const todo = `free space there, or set ${setting} to another folder`
  if (free < LITTLE_DISK) return wrong(about, message, todo)
  return free < WANTED_DISK
    ? warning(about, message, `${todo}; models and their environments take gigabytes`)
    : ok(about, message)
}

/** Returns the folder, or its nearest ancestor that exists. */
function nearest(folder: string): string {
  return existsSync(folder) ? folder : nearest(dirname(folder))
}

function checkMemory(): Check {
  const free = process.availableMemory()
  const message = `${size(free)} of ${size(totalmem())} free, ${cpus().length} processors`
  return free < WANTED_MEMORY
    ? warning(
        'Memory',
        message,
        'close other programs, or lower HEARTH_NODE_MEMORY_MB; only small models will fit',
      )
    : ok('Memory', message)
}

async function checkPort({
  HEARTH_HOST: host,
  HEARTH_PORT: port,
  HEARTH_DATA_DIR: data,
}: Config): Promise<Check> {
  const about = 'Port'
  const ready = readReady(join(data, 'ready.json'))
  const running = ready && new URL(ready.base_url)
  const address = running?.hostname.replaceAll(/[[\]]/g, '')
  if (address && (await whyNotListening(address, Number(running?.port))) === 'EADDRINUSE')
    return ok(about, `${running?.port} on ${address} belongs to the local platform`)
  if (port === 0) return ok(about, 'any free port (HEARTH_PORT=0)')
  const why = await whyNotListening(host, port)
  if (why === undefined) return ok(about, `${port} on ${host} is free for \`npm start\``)
  return why === 'EADDRINUSE'
    ? warning(
        about,
        `${port} on ${host} is in use by another program`,
        'use another port: HEARTH_PORT=8421 npm start',
      )
    : wrong(
        about,
        `${port} on ${host} cannot be bound (${why})`,
        'set HEARTH_HOST and HEARTH_PORT to an address of this machine',
      )
}

function whyNotListening(host: string, port: number): Promise<string | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (err: NodeJS.ErrnoException) => resolve(err.code ?? err.message))
    server.listen(port, host, () => server.close(() => resolve(undefined)))
  })
}

function checkDataDirectory({ HEARTH_DATA_DIR: data }: Config): Check {
  const about = 'Data directory'
  const existingFolder = nearest(data)
  if (!statSync(existingFolder).isDirectory())
    return wrong(about, `${existingFolder} is not a folder`, 'set HEARTH_DATA_DIR to another folder')
  try {
    accessSync(existingFolder, constants.W_OK)
  } catch {
    return wrong(
      about,
      `${existingFolder} is not writable by this user`,
      'change its owner, or set HEARTH_DATA_DIR to another folder',
    )
  }
  if (existingFolder !== data) return ok(about, `${data} will be created by the first \`npm start\``)
  const has = ['postgres', 'temporal', 'objects'].filter((name) => existsSync(join(data, name)))
  const up = existsSync(join(data, 'ready.json')) ? 'a platform is running' : 'no platform is running'
  return ok(about, `${data} contains ${has.join(', ') || 'no platform yet'}; ${up}`)
}

function checkProfiles(): Check[] {
  const file = profilesFile()
  const mode = statSync(file, { throwIfNoEntry: false })?.mode
  if (mode === undefined) return []
  return (mode & 0o077) === 0
    ? [ok('Profiles', `only this user can read ${file}`)]
    : [wrong('Profiles', `other users can read ${file}, which contains keys`, `chmod 600 ${file}`)]
}
