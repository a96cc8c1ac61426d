import { existsSync } from 'node:fs'
import { readConfig } from '../platform/config.ts'
import { startDatabaseServer } from '../test/support/servers/database.ts'
import { countsOf, type TestEnding, runSuite, secondChance, slowestFiles } from './mocha-run.ts'
import { provideVale } from './prose.ts'
import { pythonForChecks } from './python.ts'
import { run } from './run-command.ts'
import { runGroups } from './test-groups.ts'
import { provideTools } from './test-tools.ts'

/** A script of package.json. */
interface Check {
  name: string
  script: string
  /** Installs the program of the check. If it fails, the check is skipped with the reason. */
  provide?: () => Promise<unknown>
}

/** Checks that need no services; each counts as one test. */
const CHECKS: Check[] = [
  { name: 'types', script: 'check' },
  { name: 'format', script: 'format:check' },
  { name: 'lint', script: 'oxlint' },
  { name: 'import rules', script: 'imports' },
  { name: 'OpenAPI document', script: 'openapi:check' },
  // Without Vale the script fails in CI, and checks nothing elsewhere.
  { name: 'prose', script: 'prose', ...(!process.env['CI'] && { provide: provideVale }) },
  { name: 'Python lint and types', script: 'python:lint', provide: pythonForChecks },
  { name: 'Python tests', script: 'python:test', provide: pythonForChecks },
]
const KNIP: Check = { name: 'unused files and exports', script: 'knip' }

const SLOWEST_SHOWN = 10
const IS_STRICT = process.argv.includes('--verify')
const IS_LIGHT = process.argv.includes('--light')
const ARGUMENTS = process.argv.slice(2).filter((argument) => !['--verify', '--light'].includes(argument))

async function main(): Promise<void> {
  const isNamed = ARGUMENTS.some((argument) => argument.endsWith('.ts') || existsSync(argument))
  const checks = isNamed ? Promise.resolve([]) : runChecks()
  const env = await tools()
  const first = isNamed ? await runNamed(env) : await runAll(env)
  const checked = await checks
  const { endings, flaky } =
    isNamed || IS_STRICT
      ? { endings: first, flaky: [] }
      : await secondChance(first, (file) => alone(file, env))
  if (flaky.length > 0) {
    console.log(
      '\nNot counted: tests that failed but passed when their file was rerun alone, and processes that kept running after ' +
        'their last test. Treat each of them as a bug:',
    )
    for (const { file, title, error } of flaky) {
      console.log(`flaky: ${file} :: ${title}`)
      // CI keeps only the end of the output, where the report of the first run is missing.
      if (error !== undefined) console.log(error.replaceAll(/^/gm, '    '))
    }
  }
  console.log('\nThe slowest files:')
  for (const line of slowestFiles(endings, SLOWEST_SHOWN)) console.log(line)
  const { passed, failed, skipped } = countsOf([...checked, ...endings])
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}

async function runChecks(): Promise<TestEnding[]> {
  const endings: TestEnding[] = []
  for (const check of IS_STRICT ? [...CHECKS, KNIP] : CHECKS) endings.push(await runCheck(check))
  return endings
}

const reasonOf = (err: unknown): string => (err instanceof Error ? err.message : String(err))

/** Runs a check, or skips it if its program can't be installed on this machine. */
async function runCheck({ name, script, provide }: Check): Promise<TestEnding> {
  const reason = await provide?.().then(() => undefined, reasonOf)
  if (reason !== undefined) {
    console.log(`== ${name}: skipped (${reason})`)
    return { file: '', title: name, outcome: 'skipped' }
  }
  const started = Date.now()
  const ok = await run(['node', '--run', script], { output: 'afterwards' })
  console.log(`== ${name}: ${ok ? 'ok' : 'FAILED'} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  return { file: '', title: name, outcome: ok ? 'passed' : 'failed' }
}

/** Provides the external programs. If one is missing, the tests that need it are skipped with the reason. */
async function tools(): Promise<NodeJS.ProcessEnv> {
  const env: NodeJS.ProcessEnv = {}
  const printLine = (line: string) => console.log(`   ${line}`)
  console.log('== programs for the tests ...')
  for (const { name, variable, path, missing } of await provideTools(
    readConfig().HEARTH_CACHE_DIR,
    printLine,
    { isLight: IS_LIGHT },
  )) {
    printLine(path ? `${name}: ${path}` : `${name}: unavailable (${missing}); tests that need it are skipped`)
    if (path) env[variable] = path
    else env[`${variable}_MISSING`] = missing
  }
  return env
}

/** Starts one PostgreSQL server for all tests. If it doesn't start, each test process reports why. */
async function runAll(env: NodeJS.ProcessEnv): Promise<TestEnding[]> {
  const server = await startDatabaseServer().catch(() => undefined)
  const shared = { ...env, ...(server && { HEARTH_TEST_POSTGRES: server.address }) }
  try {
    const options = { env: shared, args: ARGUMENTS, output: 'afterwards' } as const
    return await runGroups((suite) => runSuite(suite, options), { isLight: IS_LIGHT })
  } finally {
    await server?.stop()
  }
}

/** Passes the arguments of `npm test -- ...` to mocha, such as a file or --grep. */
function runNamed(env: NodeJS.ProcessEnv): Promise<TestEnding[]> {
  return runSuite({ name: 'the named files', specs: [], minutes: 30 }, { env, args: ARGUMENTS })
}

function alone(file: string, env: NodeJS.ProcessEnv): Promise<TestEnding[]> {
  return runSuite({ name: `${file}, once more`, specs: [file], minutes: 10 }, { env, args: ARGUMENTS })
}

await main()
