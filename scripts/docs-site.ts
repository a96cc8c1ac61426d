import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cp, glob, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { FILES } from '../docs-site/src/pages.ts'
import { readConfig } from '../platform/config.ts'
import { GUIDE_FOLDER, GUIDE_PATH } from '../platform/guide.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { faultsOfSite } from './docs-links.ts'

const ROOT = resolve(import.meta.dirname, '..')
const SOURCES = join(ROOT, 'docs-site')
const LOCK = ['package.json', 'package-lock.json']

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Returns the site's package folder and whether its packages are installed. */
export async function docsPackages(cacheDir: string): Promise<{ folder: string; isInstalled: boolean }> {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}`)
  for (const name of LOCK) hash.update(await readFile(join(SOURCES, name)))
  const folder = join(cacheDir, 'docs-packages', hash.digest('hex').slice(0, 32))
  return { folder, isInstalled: await exists(folder) }
}

/** Installs the packages, once per version of their lock file. */
async function install(folder: string): Promise<void> {
  console.error('hearth: installing the packages of the documentation site (once per lock file) ...')
  const draft = `${folder}.${process.pid}.new`
  await mkdir(draft, { recursive: true })
  try {
    for (const name of LOCK) await cp(join(SOURCES, name), join(draft, name))
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
    await runProgram(npm, ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: draft })
    await rename(draft, folder)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** Writes a gzipped copy next to each text file, so that no gateway compresses one while it serves a request. */
async function pack(folder: string): Promise<void> {
  for await (const name of glob('**/*.{html,css,js,json,svg}', { cwd: folder })) {
    const path = join(folder, name)
    await writeFile(`${path}.gz`, await promisify(gzip)(await readFile(path), { level: 9 }))
  }
}

interface Target {
  out: string
  /** The path at which the site will be served. */
  base: string
}

/** Runs Astro on a copy of the sources next to their packages; a build is written to `out`. Throws if Astro fails. */
export async function runSite(
  command: 'build' | 'dev',
  { out, base }: Target,
  args: string[] = [],
): Promise<void> {
  const { folder, isInstalled } = await docsPackages(readConfig().HEARTH_CACHE_DIR)
  if (!isInstalled) await install(folder)
  const draft = join(folder, `draft-${process.pid}`)
  try {
    const isSource = (path: string) =>
      !/^(?:node_modules|dist|\.astro)(?:[/\\]|$)/.test(relative(SOURCES, path))
    await cp(SOURCES, draft, { recursive: true, filter: isSource })
    for (const path of FILES)
      await cp(join(ROOT, path), join(draft, 'public', relative('docs', path)), { recursive: true })
    const astro = join(folder, 'node_modules/astro/bin/astro.mjs')
    const child = spawn(process.execPath, [astro, command, '--outDir', out, '--base', base, ...args], {
      cwd: draft,
      env: { ...process.env, DOCS_ROOT: ROOT, ASTRO_TELEMETRY_DISABLED: '1' },
      stdio: 'inherit',
    })
    const [code] = (await once(child, 'exit')) as [number | null]
    if (code !== 0) throw new Error(`astro ${command} exited with ${code}`)
    if (command === 'build') await pack(out)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const [command, ...args] = process.argv.slice(2)
  if (command !== 'build' && command !== 'dev') throw new Error('docs-site.ts accepts build or dev')
  const { values } = parseArgs({
    args: command === 'build' ? args : [],
    options: {
      base: { type: 'string', default: GUIDE_PATH },
      out: { type: 'string', default: GUIDE_FOLDER },
    },
  })
  const target = { base: values.base, out: resolve(values.out) }
  if (target.base !== GUIDE_PATH && target.out === GUIDE_FOLDER)
    throw new Error(`--base needs --out, because gateways serve ${GUIDE_FOLDER} at ${GUIDE_PATH}`)
  await runSite(command, target, command === 'dev' ? args : [])
  const faults = command === 'build' ? faultsOfSite(target.out, target.base) : []
  for (const fault of faults) console.error(`hearth: ${fault}`)
  if (faults.length > 0) process.exitCode = 1
}
