import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { readConfig } from '../../platform/config.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

const ROOT = resolve(import.meta.dirname, '..', '..')

/** A released version, identified by its commit, so that clones without tags work. */
export interface Release {
  tag: string
  commit: string
}

/** Releases, oldest first. */
export const RELEASES = JSON.parse(
  readFileSync(join(import.meta.dirname, 'releases.json'), 'utf8'),
) as Release[]

/** The sources of one version, ready to run. */
export interface Checkout extends Disposable {
  readonly name: string
  readonly path: string
}

/** Checks out the sources of a release. Throws if the commit isn't in this clone. */
export async function checkOutRelease({ tag, commit }: Release): Promise<Checkout> {
  const folder = temporaryFolder()
  const archive = join(folder.path, 'sources.tar')
  const path = join(folder.path, 'hearth')
  mkdirSync(path)
  await runProgram('git', ['archive', '--output', archive, commit], { cwd: ROOT })
  await runProgram('tar', ['-xf', archive, '-C', path])
  await providePackages(path)
  return { name: tag, path, [Symbol.dispose]: () => folder[Symbol.dispose]() }
}

/** A migration that no version has. Like a real future migration, it only adds to the schema. */
const LATER_MIGRATION = `alter table task add column made_up_for_the_upgrade_test integer;
create table made_up_for_the_upgrade_test (id integer primary key);
`
/** A frame type that no version knows: every channel of the later version sends one each second. */
const LATER_FRAME = `
    const later = setInterval(() => {
      const frame = Buffer.alloc(11)
      frame[0] = 201
      if (socket.readyState === 1) socket.send(frame)
    }, 1_000)
    later.unref()
    socket.once('close', () => clearInterval(later))
`

/**
 * Copies the working tree as a hypothetical later version, with one more migration and an unknown frame type.
 */
export async function makeLaterVersion(): Promise<Checkout> {
  const folder = temporaryFolder()
  const path = join(folder.path, 'hearth')
  const { stdout } = await runProgram('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    maxBuffer: 16 << 20,
  })
  for (const file of stdout.split('\n').filter(Boolean)) {
    mkdirSync(join(path, dirname(file)), { recursive: true })
    // Git still lists files whose deletion isn't committed yet.
    try {
      cpSync(join(ROOT, file), join(path, file))
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err
    }
  }
  writeFileSync(join(path, 'db/migrations/9001-later.sql'), LATER_MIGRATION)
  addLaterFrame(join(path, 'platform/link/channel.ts'))
  await providePackages(path)
  return { name: 'the later version', path, [Symbol.dispose]: () => folder[Symbol.dispose]() }
}

function addLaterFrame(file: string): void {
  const source = readFileSync(file, 'utf8')
  const constructor = /constructor\(socket: WebSocket.*\{\n/.exec(source)
  if (!constructor) throw new Error('the constructor of LinkChannel has changed; update the upgrade test')
  const at = constructor.index + constructor[0].length
  writeFileSync(file, source.slice(0, at) + LATER_FRAME + source.slice(at))
}

/**
 * Provides packages: this checkout's if the lock files are equal, otherwise the version's own, installed once per
 * machine.
 */
async function providePackages(path: string): Promise<void> {
  const lock = readFileSync(join(path, 'package-lock.json'))
  const isOurs = lock.equals(readFileSync(join(ROOT, 'package-lock.json')))
  const packages = isOurs ? join(ROOT, 'node_modules') : await installedPackages(path, lock)
  symlinkSync(packages, join(path, 'node_modules'))
}

/** Installing occupies both cores for half a minute, so the result is cached by the digest of the lock file. */
async function installedPackages(path: string, lock: Buffer): Promise<string> {
  const digest = createHash('sha256').update(lock).update(`${process.platform} ${process.arch}`).digest('hex')
  const installed = join(readConfig().HEARTH_CACHE_DIR, 'release-packages', digest.slice(0, 16))
  // Packages resolve each other by the name of this folder.
  const packages = join(installed, 'node_modules')
  if (existsSync(packages)) return packages
  const draft = `${installed}.${process.pid}.new`
  mkdirSync(draft, { recursive: true })
  try {
    for (const file of ['package.json', 'package-lock.json']) cpSync(join(path, file), join(draft, file))
    await runProgram('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], {
      cwd: draft,
      maxBuffer: 16 << 20,
    })
    renameSync(draft, installed)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
  return packages
}
