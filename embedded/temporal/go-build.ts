import { chmodSync, copyFileSync, cpSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runProgram } from '../../platform/processes/run-program.ts'
import { goBuild, onPath } from '../processes/programs.ts'

const MODULE = 'github.com/temporalio/cli'
/** The CLI replaces this dependency with a folder that its module lacks; the development server doesn't need it. */
const UNPUBLISHED = `${MODULE}/cliext`
const COMMAND = 'hearth-dev-server'

export interface FetchOptions {
  version: string
  signal: AbortSignal | undefined
}

/**
 * Builds the CLI's development server from the CLI's Go module, which takes about five CPU minutes, once per machine.
 * `go install` rejects this module because of its `replace`, so we build a copy without that line and with our own main
 * package.
 */
export async function buildDevServer(
  target: string,
  say: (line: string) => void,
  { version, signal }: FetchOptions,
): Promise<void> {
  const go = onPath('go')
  if (!go) throw new Error('there is no `go` to build it with')
  const folder = `${dirname(target)}.build-${process.pid}`
  const module = join(folder, 'module')
  mkdirSync(folder, { recursive: true })
  try {
    const { stdout } = await runProgram(go, ['mod', 'download', '-json', `${MODULE}@v${version}`], {
      cwd: folder,
      signal,
    })
    cpSync((JSON.parse(stdout) as { Dir: string }).Dir, module, { recursive: true })
    makeWritable(module)
    await runProgram(go, ['mod', 'edit', `-dropreplace=${UNPUBLISHED}`, `-droprequire=${UNPUBLISHED}`], {
      cwd: module,
    })
    mkdirSync(join(module, 'cmd', COMMAND))
    copyFileSync(join(import.meta.dirname, 'go', 'main.go'), join(module, 'cmd', COMMAND, 'main.go'))
    const program = join(folder, 'temporal')
    const flags = ['-ldflags', `-s -w -X main.version=${version}`, '-o', program]
    await goBuild(
      go,
      `temporal ${version}`,
      ['build', ...flags, `./cmd/${COMMAND}`],
      { cwd: module, signal },
      say,
    )
    mkdirSync(dirname(target), { recursive: true })
    renameSync(program, target)
  } catch (err) {
    throw new Error(`building Temporal with Go failed (${(err as Error).message.split('\n')[0]})`, {
      cause: err,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Makes a folder writable: files in the module cache are read-only, and so are their copies. */
function makeWritable(folder: string): void {
  chmodSync(folder, 0o755)
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644)
  }
}
