import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { runProgram } from './processes/run-program.ts'

const ROOT = resolve(import.meta.dirname, '..')
const SOURCES = join(ROOT, 'console')
/**
 * The folders that the console imports: the client, the schemas with the client's types, and TypeBox for the schemas.
 */
const IMPORTED = ['client', 'schemas', 'node_modules/typebox']
/** Builds are small, and gateways may still serve files from an earlier one; a set of packages takes 180 MB. */
const KEPT = { builds: 10, packages: 3 }

/** Returns the folder of the built console, named after the digest of its sources, its lock file and the client. */
export async function consoleFolder(cacheDir: string): Promise<string> {
  const files = await Promise.all(['console', 'client'].map(sourceFiles))
  return join(cacheDir, 'console', await digestOf(files.flat()))
}

/**
 * Builds the console unless these sources have been built already, and returns the folder. Processes that start at the
 * same time may each build it; the first rename wins, and the content is the same.
 */
export async function buildConsole(cacheDir: string, say: (line: string) => void): Promise<string> {
  const folder = await consoleFolder(cacheDir)
  if (await exists(join(folder, 'index.html'))) return folder

  const started = Date.now()
  await inConsolePackages(cacheDir, say, async (draft) => {
    say('building the console ...')
    await runProgram(process.execPath, ['../../node_modules/vite/bin/vite.js', 'build'], { cwd: draft })
    await pack(join(draft, 'dist', 'assets'))
    await moveUnlessThere(join(draft, 'dist'), folder)
  })
  await removeOld(join(cacheDir, 'console'), folder, KEPT.builds)
  say(`the console is built (${Math.round((Date.now() - started) / 1000)} s)`)
  return folder
}

/** Writes a gzipped copy next to each asset, so that no gateway compresses one while it serves a request. */
async function pack(folder: string): Promise<void> {
  const names = await readdir(folder)
  await Promise.all(
    names.map(async (name) => {
      const packed = await promisify(gzip)(await readFile(join(folder, name)), { level: 9 })
      await writeFile(join(folder, `${name}.gz`), packed)
    }),
  )
}

/** Type-checks the console with this checkout's compiler and the console's packages. */
export async function checkConsole(cacheDir: string, say: (line: string) => void): Promise<void> {
  const compiler = join(ROOT, 'node_modules/.bin/tsc')
  await inConsolePackages(cacheDir, say, async (draft) => {
    await runProgram(compiler, ['--noEmit', '-p', '.'], { cwd: draft })
  })
}

/**
 * Runs an action in a copy of the sources, inside the folder of their installed packages and next to what they import.
 */
export async function inConsolePackages(
  cacheDir: string,
  say: (line: string) => void,
  action: (draft: string) => Promise<void>,
): Promise<void> {
  const packages = await installPackages(cacheDir, say)
  const draft = join(packages, `draft-${process.pid}`)
  try {
    await cp(SOURCES, join(draft, 'console'), { recursive: true, filter: (source) => !isLeftOut(source) })
    await mkdir(join(draft, 'node_modules'))
    for (const name of IMPORTED) await symlink(join(ROOT, name), join(draft, name), 'junction')
    await action(join(draft, 'console'))
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

async function installPackages(cacheDir: string, say: (line: string) => void): Promise<string> {
  const lock = ['console/package.json', 'console/package-lock.json']
  const packages = join(cacheDir, 'console-packages', await digestOf(lock))
  if (await exists(packages)) return packages

  say("installing the console's packages (once per change of its lock file) ...")
  const draft = `${packages}.${process.pid}.new`
  await mkdir(draft, { recursive: true })
  try {
    for (const name of lock) await cp(join(ROOT, name), join(draft, basename(name)))
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
    await runProgram(npm, ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: draft })
    await moveUnlessThere(draft, packages)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  await removeOld(join(cacheDir, 'console-packages'), packages, KEPT.packages)
  return packages
}

async function moveUnlessThere(from: string, to: string): Promise<void> {
  await mkdir(resolve(to, '..'), { recursive: true })
  try {
    await rename(from, to)
  } catch (err) {
    if (!(await exists(to))) throw err
  }
}

async function sourceFiles(folder: string): Promise<string[]> {
  const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return files.filter((file) => !isLeftOut(file)).map((file) => relative(ROOT, file))
}

/** Skips `node_modules` and `dist`, which local development of the console leaves next to the sources. */
const isLeftOut = (file: string): boolean =>
  /^[/\\](?:node_modules|dist)(?:[/\\]|$)/.test(file.slice(SOURCES.length))

async function digestOf(names: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}`)
  for (const name of names.toSorted()) hash.update(`\0${name}\0`).update(await readFile(join(ROOT, name)))
  return hash.digest('hex').slice(0, 32)
}

/** Removes all but the newest few entries; several stay, because gateways of different versions may share the cache. */
async function removeOld(folder: string, current: string, kept: number): Promise<void> {
  const paths = (await readdir(folder)).map((name) => join(folder, name)).filter((path) => path !== current)
  const dated = await Promise.all(
    paths.map(async (path) => ({
      path,
      at: await stat(path).then(
        (s) => s.mtimeMs,
        () => 0,
      ),
    })),
  )
  const old = dated.toSorted((a, b) => b.at - a.at).slice(kept - 1)
  await Promise.all(old.map(({ path }) => rm(path, { recursive: true, force: true })))
}

const exists = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  )
