import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './run-command.ts'

/** The number of tests by outcome. */
export interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** The outcome of one test, or of a failed hook. */
export interface TestEnding {
  /** Relative to the checkout; empty for a failure without a file. */
  file: string
  /** Includes the titles of the enclosing suites. */
  title: string
  outcome: keyof Counts
  /** The duration of the test including its hooks, in milliseconds, if known. */
  ms?: number
  /** The first lines of its error. */
  error?: string
}

/** One mocha process over some files of `test/`. */
export interface Suite {
  name: string
  specs: string[]
  /** The time limit in minutes. */
  minutes: number
}

interface MochaOptions {
  /** Variables added to the environment of this process. */
  env: NodeJS.ProcessEnv
  /** Additional arguments for mocha. */
  args?: string[]
  output?: 'live' | 'afterwards'
}

/** Runs one suite and returns the outcome of each test. A run that dies or hangs counts as one more failure. */
export async function runSuite(suite: Suite, options: MochaOptions): Promise<TestEnding[]> {
  const { env, args = [], output = 'live' } = options
  const folder = mkdtempSync(join(tmpdir(), 'hearth-tests-'))
  const record = join(folder, 'record.jsonl')
  const started = Date.now()
  console.log(`\n== ${suite.name} ...`)
  try {
    const command = ['mocha', '--reporter', 'scripts/recording-reporter.cjs', ...suite.specs, ...args]
    const ok = await run(command, {
      // OpenMP threads wait for each other in busy loops: while other tests run, two threads take ten times as long as
      // one.
      env: { OMP_NUM_THREADS: '1', ...env, HEARTH_TEST_RECORD: record },
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

/**
 * The failure of a process that had to be killed after its last test: something leaks, but the test outcomes count.
 */
const LINGERS = 'the process exits after its last test'

/** Failures in more files than this aren't considered flaky. */
const MAX_FILES = 5

/**
 * Reruns each file with failures by itself, unless there are many such files. The new outcomes replace the earlier
 * ones; `flaky` contains the failures that didn't recur.
 */
export async function secondChance(
  first: TestEnding[],
  again: (file: string) => Promise<TestEnding[]>,
): Promise<{ endings: TestEnding[]; flaky: TestEnding[] }> {
  const failures = first.filter(({ file, outcome }) => outcome === 'failed' && file !== '')
  const byFile = Map.groupBy(failures, (failure) => failure.file)
  if (byFile.size > MAX_FILES) return { endings: first, flaky: [] }
  const flaky = first.filter(isLingering)
  let endings = first.filter((ending) => !isLingering(ending))
  for (const [file, before] of byFile) {
    const now = await again(file)
    const failing = new Set(now.filter(({ outcome }) => outcome === 'failed').map(({ title }) => title))
    // An interrupted run has no outcome for the tests that it didn't reach.
    const isWhole = now.every((ending) => ending.file === file)
    if (isWhole) flaky.push(...before.filter(({ title }) => !failing.has(title)))
    endings = [...endings.filter((ending) => ending.file !== file), ...now]
  }
  return { endings, flaky }
}

const isLingering = ({ file, title }: TestEnding) => file === '' && title.endsWith(LINGERS)

export function countsOf(endings: TestEnding[]): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const { outcome } of endings) counts[outcome]++
  return counts
}

/** Returns the slowest files, as lines to print. */
export function slowestFiles(endings: readonly TestEnding[], most: number): string[] {
  const byFile = new Map<string, number>()
  for (const { file, ms = 0 } of endings) if (file !== '') byFile.set(file, (byFile.get(file) ?? 0) + ms)
  return [...byFile]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, most)
    .map(([file, ms]) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${file}`)
}

/** Reads the reporter's records: the outcomes, whether the run was complete, and whether its process kept running. */
function read(record: string): { endings: TestEnding[]; isWhole: boolean; lingers: boolean } {
  const lines = existsSync(record) ? readFileSync(record, 'utf8').split('\n').filter(Boolean) : []
  const messages = lines.map((line) => JSON.parse(line) as TestEnding | { ended: true } | { lingers: true })
  const endings = messages.filter((line): line is TestEnding => 'outcome' in line)
  return {
    endings,
    isWhole: messages.some((line) => 'ended' in line),
    lingers: messages.some((line) => 'lingers' in line),
  }
}
