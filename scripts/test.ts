import { globSync } from 'node:fs'
import { sep } from 'node:path'
import { readConfig } from '../platform/config.ts'
import { countsOf, type Ending, runSuite, secondChance, slowestFiles, type Suite } from './mocha-run.ts'
import { run } from './run-command.ts'
import { provideTools } from './test-tools.ts'

/** A script of package.json. */
interface Check {
  name: string
  script: string
}

/** Checks that need no service; each counts as one test. */
const CHECKS: Check[] = [
  { name: 'types', script: 'check' },
  { name: 'format', script: 'format:check' },
  { name: 'lint', script: 'oxlint' },
  { name: 'import rules', script: 'imports' },
  { name: 'OpenAPI document', script: 'openapi:check' },
]
const KNIP: Check = { name: 'unused files and exports', script: 'knip' }

/** What brings up whole platforms, each with processes of its own. */
const PLATFORMS = ['e2e', 'faults', 'compose', 'upgrade']
/** What keeps a processor busy; the rest mostly waits. */
const BUSY = ['node-runtime', 'platform', 'domain', 'db', 'embedded']
const SLOWEST_SHOWN = 10
const IS_STRICT = process.argv.includes('--verify')
const ARGUMENTS = process.argv.slice(2).filter((argument) => argument !== '--verify')

async function main(): Promise<void> {
  const isNamed = ARGUMENTS.some((argument) => argument.endsWith('.ts'))
  const [checked, env] = await Promise.all([isNamed ? [] : runChecks(), tools()])
  const first = isNamed ? await runNamed(env) : await runAll(env)
  const { endings, flaky } =
    isNamed || IS_STRICT
      ? { endings: first, flaky: [] }
      : await secondChance(first, (file) => alone(file, env))
  if (flaky.length > 0) {
    console.log(
      '\nThese do not count: what failed, and passed when its file ran once more by itself; a process that lived on after ' +
        'its last test. Each is a bug to be mended:',
    )
    for (const { file, title } of flaky) console.log(`flaky: ${file} :: ${title}`)
  }
  console.log('\nThe slowest files:')
  for (const line of slowestFiles(endings, SLOWEST_SHOWN)) console.log(line)
  const { passed, failed, skipped } = countsOf([...checked, ...endings])
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}

async function runChecks(): Promise<Ending[]> {
  const endings: Ending[] = []
  for (const check of IS_STRICT ? [...CHECKS, KNIP] : CHECKS) endings.push(await runCheck(check))
  return endings
}

async function runCheck({ name, script }: Check): Promise<Ending> {
  const started = Date.now()
  console.log(`== ${name} ...`)
  const ok = await run(['node', '--run', script])
  console.log(`== ${name}: ${ok ? 'ok' : 'FAILED'} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  return { file: '', title: name, outcome: ok ? 'passed' : 'failed' }
}

/** Where tests find outside programs; the reason for an absent one becomes the reason of what is skipped. */
async function tools(): Promise<NodeJS.ProcessEnv> {
  const env: NodeJS.ProcessEnv = {}
  const say = (line: string) => console.log(`   ${line}`)
  console.log('== programs for the tests ...')
  for (const { name, variable, path, missing } of await provideTools(readConfig().HEARTH_CACHE_DIR, say)) {
    say(path ? `${name}: ${path}` : `${name}: none (${missing}); tests that need it are skipped`)
    if (path) env[variable] = path
    else env[`${variable}_MISSING`] = missing
  }
  return env
}

async function runAll(env: NodeJS.ProcessEnv): Promise<Ending[]> {
  const inLane = async (lane: Suite[], output: 'live' | 'afterwards') => {
    const endings: Ending[] = []
    for (const suite of lane) endings.push(...(await runSuite(suite, { env, args: ARGUMENTS, output })))
    return endings
  }
  const [first, ...others] = lanes()
  return (
    await Promise.all([inLane(first, 'live'), ...others.map((lane) => inLane(lane, 'afterwards'))])
  ).flat()
}

/** Arguments of `npm test -- ...` are mocha's: a file, --grep. */
function runNamed(env: NodeJS.ProcessEnv): Promise<Ending[]> {
  return runSuite({ name: 'the files named', specs: [], minutes: 30 }, { env, args: ARGUMENTS })
}

function alone(file: string, env: NodeJS.ProcessEnv): Promise<Ending[]> {
  return runSuite({ name: `${file}, once more`, specs: [file], minutes: 10 }, { env, args: ARGUMENTS })
}

/** Lanes run side by side and take about the same time; the suites of a lane run one after the other. */
function lanes(): [Suite[], ...Suite[][]] {
  const files = globSync('test/*/**/*.test.ts')
  const folders = [...new Set(files.map((file) => file.split(sep)[1] ?? ''))]
  const suite = (name: string, of: string[]) => {
    return { name, minutes: 45, specs: of.map((folder) => `test/${folder}/**/*.test.ts`) }
  }
  const elsewhere = [...PLATFORMS, ...BUSY, 'activities']
  const rest = folders.filter((folder) => !elsewhere.includes(folder))
  return [
    [suite('routes, workflows, contract', rest)],
    [suite('nodes, trainers, outside systems', BUSY)],
    [
      suite('end to end', ['e2e']),
      suite('faults', ['faults']),
      suite('containers', ['compose']),
      suite('upgrades', ['upgrade']),
      suite('activities', ['activities']),
    ],
  ]
}

await main()
