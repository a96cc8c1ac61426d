import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withProgress } from '../../platform/async/with-progress.ts'
import { runProgram } from '../../platform/processes/run-program.ts'

export interface PackagesOptions {
  /** The folder of installed packages, outside the checkout and shared by all checkouts on this machine. */
  cacheDir: string
  log: (line: string) => void
  /** The folder of the lock files; defaults to the one for models. */
  locksDir?: string
}

const LOCKS = join(dirname(fileURLToPath(import.meta.url)), 'npm')
const INSTALL_TIMEOUT_MS = 600_000

const underWay = new Map<string, Promise<string>>()

/**
 * Returns the folder of a locked set of npm packages, which it installs if necessary. The folder is built under a
 * temporary name and renamed, so a partial one is never visible. If two processes race, the later one discards its
 * copy.
 */
export async function ensurePackages(name: string, options: PackagesOptions): Promise<string> {
  const { source, directory } = await whereAre(name, options)
  if (existsSync(directory)) return directory

  const running = underWay.get(directory)
  if (running) return running
  const work = install(name, source, directory, options).finally(() => underWay.delete(directory))
  underWay.set(directory, work)
  return work
}

/** Returns whether the packages are installed on this machine. */
export const hasPackages = async (name: string, options: PackagesOptions): Promise<boolean> =>
  existsSync((await whereAre(name, options)).directory)

async function whereAre(
  name: string,
  options: PackagesOptions,
): Promise<{ source: string; directory: string }> {
  const source = join(options.locksDir ?? LOCKS, name, `${process.platform}-${process.arch}`)
  const lock = await readFile(join(source, 'package-lock.json')).catch((cause: unknown) => {
    throw new Error(`the packages ${name} are not available for ${process.platform}-${process.arch}`, {
      cause,
    })
  })
  const digest = createHash('sha256').update(lock).digest('hex').slice(0, 16)
  return { source, directory: join(options.cacheDir, 'npm', `${name}-${digest}`) }
}

async function install(
  name: string,
  source: string,
  directory: string,
  { log }: PackagesOptions,
): Promise<string> {
  const draft = `${directory}.draft-${randomUUID()}`
  const started = performance.now()
  log(`Packages ${name}: installing (once per machine)`)
  await mkdir(draft, { recursive: true })
  try {
    await cp(source, draft, { recursive: true })
    // The optional dependencies are builds for other machines and accelerators.
    const args = ['install', '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund']
    await withProgress(`installing the packages ${name}`, log, () =>
      runProgram('npm', args, {
        cwd: draft,
        timeout: INSTALL_TIMEOUT_MS,
        env: { ...process.env, npm_config_prefix: '' },
      }),
    )
    await rename(draft, directory).catch((err: unknown) => {
      if (!existsSync(directory)) throw err
    })
  } catch (err) {
    const { stderr = '', message } = err as { stderr?: string; message: string }
    const errorLines = stderr.split('\n').filter((line) => /^npm error \S/.test(line))
    const why = errorLines.slice(0, 3).join('; ') || message
    throw new Error(`the packages ${name} could not be installed: ${why}`, { cause: err })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  log(`Packages ${name}: ready after ${((performance.now() - started) / 1000).toFixed(1)} s`)
  return directory
}
