import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ReadyFile } from '../../../embedded/supervisor.ts'
import type { Command } from '../builders/pages/commands.ts'
import { fillIn } from '../builders/pages/placeholders.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Links every entry of the checkout into a folder, where commands then work as in the checkout but write nothing to it. */
export function linkCheckout(folder: string): void {
  for (const name of readdirSync(ROOT))
    if (!['.git', '.hearth'].includes(name)) symlinkSync(join(ROOT, name), join(folder, name))
}

/** Shell code that runs `npx hearth` without npx, which takes eight times as long to find the same program. */
export const DIRECT_NPX =
  'npx() { if [ "$1" = hearth ]; then node scripts/hearth.mjs "${@:2}"; else command npx "$@"; fi; }'

/** The page whose commands use the real npx. */
const WITH_NPX = 'docs/quickstart.md'

/** The shell code before the commands of a page. A command that fails, or an HTTP error, ends the shell. */
const prologue = ({ base_url, api_key, operations_key }: ReadyFile): string => `
set -euo pipefail
shopt -s expand_aliases
. docs/examples/cohorts/functions.sh
HEARTH=${base_url} BASE=${base_url}/api/builder/v1
KEY=${api_key} HEARTH_API_KEY=${api_key} HEARTH_OPERATIONS_KEY=${operations_key}
curl() { command curl --fail-with-body "$@" | tee answer.json; }
answered() { field "$1" < answer.json; }
completed() {
  wait_for "$1" 'pending running' call "training/runs/$1"
  [ "$(call "training/runs/$1" | field status)" = completed ]
}
`

/** Returns a command with its placeholders filled in, some from the response to the command before it. */
function typed(page: string, { text, comment }: Command, ready: ReadyFile): string {
  const [, member] = /^# (\w+) from the response/.exec(comment) ?? []
  const [, variable] = /^(\w+)=\.\.\.$/.exec(text) ?? []
  if (member === undefined || variable === undefined) return fillIn(page, text, ready)
  const wait = comment.includes('once the run is completed') ? `\ncompleted $${variable}` : ''
  return `${variable}=$(answered ${member})${wait}`
}

/** Runs the commands of pages against a platform, each page in a new shell. */
export class PageShell implements Disposable {
  readonly #folder: string
  readonly #dataDir: string
  readonly #ready: ReadyFile
  #child: ChildProcess | undefined

  /** `folder` is where the commands run. */
  constructor({ folder, dataDir, ready }: { folder: string; dataDir: string; ready: ReadyFile }) {
    this.#folder = folder
    this.#dataDir = dataDir
    this.#ready = ready
  }

  /** Ends a page that is still running, with all its programs. */
  [Symbol.dispose](): void {
    const { pid, exitCode, signalCode } = this.#child ?? {}
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL')
  }

  /** Returns the exit code and the output, which ends with the command that failed and its messages. */
  async run(page: string, commands: readonly Command[]): Promise<{ code: number | null; output: string }> {
    const lines = commands.map((command) => {
      const line = typed(page, command, this.#ready)
      return `echo '$ ${line.replaceAll("'", `'\\''`)}' >&2\n${line}\n`
    })
    // Each page has separate `hearth login` profiles.
    const profiles = join(this.#folder, 'config', basename(page))
    const npx = page === WITH_NPX ? '' : DIRECT_NPX
    const child = spawn('bash', ['-c', [prologue(this.#ready), npx, ...lines].join('\n')], {
      cwd: this.#folder,
      env: { ...process.env, HEARTH_DATA_DIR: this.#dataDir, XDG_CONFIG_HOME: profiles },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    this.#child = child
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, output }
  }
}
