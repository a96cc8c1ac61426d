import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import type { WorkflowBundleOption } from '@temporalio/worker'
import { runProgram } from '../platform/processes/run-program.ts'

const ROOT = resolve(import.meta.dirname, '..')
/** The folders that workflow code may import, which therefore determine the bundle. */
const SOURCES = ['workflows', 'domain', 'schemas']
const KEPT = 4

const { version: SDK_VERSION } = createRequire(import.meta.url)('@temporalio/worker/package.json') as {
  version: string
}

/**
 * Returns the workflow code as one file, built once (2 CPU-seconds) and cached under the digest of its sources.
 * Processes that start at the same time may each build it; the last rename wins, with the same bytes.
 */
export async function workflowBundle(cacheDir: string): Promise<WorkflowBundleOption> {
  const folder = join(cacheDir, 'workflow-bundles')
  const codePath = join(folder, `${await sourceDigest()}.js`)
  if (await exists(codePath)) return { codePath }

  await mkdir(folder, { recursive: true })
  const draft = `${codePath}.${process.pid}.new`
  await runProgram(process.execPath, [join(ROOT, 'workers', 'build-bundle.ts'), draft])
  await rename(draft, codePath)
  await removeOld(folder)
  return { codePath }
}

async function sourceDigest(): Promise<string> {
  const hash = createHash('sha256').update(SDK_VERSION)
  for (const source of SOURCES) {
    const names = await readdir(join(ROOT, source), { recursive: true })
    for (const name of names.filter((each) => each.endsWith('.ts')).toSorted()) {
      hash.update(`\0${source}/${name}\0`).update(await readFile(join(ROOT, source, name)))
    }
  }
  return hash.digest('hex').slice(0, 32)
}

/** Removes old bundles. Workers of several versions may share the cache, so the newest few stay. */
async function removeOld(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.js'))
  const dated = await Promise.all(
    names.map(async (name) => ({
      name,
      at: await stat(join(folder, name)).then(
        (s) => s.mtimeMs,
        () => 0,
      ),
    })),
  )
  const old = dated.toSorted((a, b) => b.at - a.at).slice(KEPT)
  await Promise.all(old.map(({ name }) => rm(join(folder, name), { force: true })))
}

const exists = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  )
