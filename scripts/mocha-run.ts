import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './run-command.ts'

/** How many tests ended in which way. */
export interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** How one test ended, or a hook that failed. */
export interface Ending {
  /** Relative to the checkout; empty for what belongs to no file. */
  file: string
  /** With the titles of the suites around it. */
  title: string
  outcome: keyof Counts
  /** Milliseconds that it took with its hooks, where that is known. */
  ms?: number
}

/** One mocha process over some files of `test/`. */
export interface Suite {
  name: string
  specs: string[]
  /** It is stopped after this long. */
  minutes: number
}

interface MochaOptions {
  /** Added to the environment of this process. */
  env: NodeJS.ProcessEnv
  /** Further arguments for mocha. */
  args?: string[]
  output?: 'live' | 'afterwards'
}

/** Runs one suite and tells how each of its tests ended; a run that dies or hangs counts as one more failure. */
export async function runSuite(suite: Suite, options: MochaOptions): Promise<Ending[]> {
  const { env, args = [], output = 'live' } = options
  const folder = mkdtempSync(join(tmpdir(), 'hearth-tests-'))
  const record = join(folder, 'record.jsonl')
  const started = Date.now()
  console.log(`\n== ${suite.name} ...`)
  try {
    const command = ['mocha', '--reporter', 'scripts/recording-reporter.cjs', ...suite.specs, ...args]
    const ok = await run(command, {
      env: { ...env, HEARTH_TEST_RECORD: record },
      minutes: suite.minutes,
      output,
    })
    const { endings, isWhole, lingers } = read(record)
    const isTold = isWhole && (ok || lingers || endings.some(({ outcome }) => outcome === 'failed'))
    if (!isTold) endings.push({ file: '', title: `${suite.name}: the run as a whole`, outcome: 'failed' })
    if (lingers) endings.push({ file: '', title: `${suite.name}: ${LINGERS}`, outcome: 'failed' })
    const { passed, failed } = countsOf(endings)
    const seconds = Math.round((Date.now() - started) / 1000)
    console.log(`== ${suite.name}: ${passed} passed, ${failed} failed (${seconds} s)`)
    return endings
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A process that had to be killed after its last test: something leaks, but what the tests said stands. */
const LINGERS = 'the process ends with its last test'

/** Where more files than this have failures, it is no accident. */
const MOST_FILES = 5

/**
 * Runs each file that has failures once more by itself, unless these are more than a few. What happened then stands in
 * the place of what happened before; `flaky` are the failures that did not come again.
 */
export async function secondChance(
  first: Ending[],
  again: (file: string) => Promise<Ending[]>,
): Promise<{ endings: Ending[]; flaky: Ending[] }> {
  const failures = first.filter(({ file, outcome }) => outcome === 'failed' && file !== '')
  const byFile = Map.groupBy(failures, (failure) => failure.file)
  if (byFile.size > MOST_FILES) return { endings: first, flaky: [] }
  const flaky = first.filter(isLingering)
  let endings = first.filter((ending) => !isLingering(ending))
  for (const [file, before] of byFile) {
    const now = await again(file)
    const failing = new Set(now.filter(({ outcome }) => outcome === 'failed').map(({ title }) => title))
    // A run that broke off says nothing of the tests it did not come to.
    const isWhole = now.every((ending) => ending.file === file)
    if (isWhole) flaky.push(...before.filter(({ title }) => !failing.has(title)))
    endings = [...endings.filter((ending) => ending.file !== file), ...now]
  }
  return { endings, flaky }
}

const isLingering = ({ file, title }: Ending) => file === '' && title.endsWith(LINGERS)

export function countsOf(endings: Ending[]): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const { outcome } of endings) counts[outcome]++
  return counts
}

/** The files that took longest, as lines to print. */
export function slowestFiles(endings: readonly Ending[], most: number): string[] {
  const byFile = new Map<string, number>()
  for (const { file, ms = 0 } of endings) if (file !== '') byFile.set(file, (byFile.get(file) ?? 0) + ms)
  return [...byFile]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, most)
    .map(([file, ms]) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${file}`)
}

/** What the reporter wrote, whether it came to the end, and whether its process then lived on. */
function read(record: string): { endings: Ending[]; isWhole: boolean; lingers: boolean } {
  const lines = existsSync(record) ? readFileSync(record, 'utf8').split('\n').filter(Boolean) : []
  const told = lines.map((line) => JSON.parse(line) as Ending | { ended: true } | { lingers: true })
  const endings = told.filter((line): line is Ending => 'outcome' in line)
  return {
    endings,
    isWhole: told.some((line) => 'ended' in line),
    lingers: told.some((line) => 'lingers' in line),
  }
}
