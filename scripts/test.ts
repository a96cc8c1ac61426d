import { readdirSync } from 'node:fs'
import { readConfig } from '../platform/config.ts'
import { countsOf, type Ending, runSuite, secondChance, type Suite } from './mocha-run.ts'
import { run } from './run-command.ts'
import { provideTools } from './test-tools.ts'

const FOLDERS = 'api activities cli db domain embedded node-runtime platform schemas workers workflows'

interface Step {
  name: string
  command: string[]
}

/** Checks that need no service; each counts as one test. */
const CHECKS: Step[] = [
  { name: 'types', command: ['tsc', '--noEmit', '-p', '.'] },
  { name: 'format', command: ['oxfmt', '--check', '.'] },
  { name: 'lint', command: ['oxlint', '--type-aware'] },
  { name: 'import rules', command: ['depcruise', '--no-progress', ...FOLDERS.split(' ')] },
  { name: 'OpenAPI document', command: ['node', 'scripts/openapi.ts', '--check'] },
]
const KNIP: Step = { name: 'unused files and exports', command: ['knip'] }

/** What is measured in seconds of the whole machine runs alone, after the rest. */
const ALONE = ['e2e', 'faults']
/** About half of the rest by time, most of it on the processor; it runs beside the other half, which mostly waits. */
const HEAVY = ['node-runtime', 'platform', 'trainers', 'domain', 'db', 'embedded']
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
      '\nThese failed, and passed when their file ran once more by itself. Each is a bug to be mended:',
    )
    for (const { file, title } of flaky) console.log(`flaky: ${file} :: ${title}`)
  }
  const { passed, failed, skipped } = countsOf([...checked, ...endings])
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}

async function runChecks(): Promise<Ending[]> {
  const endings: Ending[] = []
  for (const check of IS_STRICT ? [...CHECKS, KNIP] : CHECKS) endings.push(await runCheck(check))
  return endings
}

async function runCheck({ name, command }: Step): Promise<Ending> {
  const started = Date.now()
  console.log(`== ${name} ...`)
  const ok = await run(command)
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
  const [light, heavy, ...last] = suites()
  const endings = (
    await Promise.all([
      runSuite(light, { env, args: ARGUMENTS }),
      runSuite(heavy, { env, args: ARGUMENTS, output: 'afterwards' }),
    ])
  ).flat()
  for (const suite of last) endings.push(...(await runSuite(suite, { env, args: ARGUMENTS })))
  return endings
}

/** Arguments of `npm test -- ...` are mocha's: a file, --grep. */
function runNamed(env: NodeJS.ProcessEnv): Promise<Ending[]> {
  return runSuite({ name: 'the files named', specs: [], minutes: 30 }, { env, args: ARGUMENTS })
}

function alone(file: string, env: NodeJS.ProcessEnv): Promise<Ending[]> {
  return runSuite({ name: `${file}, once more`, specs: [file], minutes: 10 }, { env, args: ARGUMENTS })
}

function suites(): [Suite, Suite, ...Suite[]] {
  const folders = readdirSync('test', { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const names = folders.map(({ name }) => name).filter((name) => !ALONE.includes(name))
  const light = names.filter((name) => !HEAVY.includes(name))
  const suite = (name: string, of: string[], minutes: number) => {
    return { name, minutes, specs: of.map((folder) => `test/${folder}/**/*.test.ts`) }
  }
  return [
    suite('routes, workflows, contract', light, 25),
    suite('nodes, trainers, outside systems', HEAVY, 25),
    suite('end to end', ['e2e'], 12),
    suite('faults', ['faults'], 15),
  ]
}

await main()
