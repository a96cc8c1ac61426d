import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../platform/config.ts'
import { run } from './run-command.ts'
import { provideTools } from './test-tools.ts'

const FOLDERS = 'api activities cli db domain embedded node-runtime platform schemas workers workflows'

interface Counts {
  passed: number
  failed: number
  skipped: number
}

interface Step {
  name: string
  command: string[]
}

/** One mocha process over some folders of `test/`. */
interface Suite {
  name: string
  specs: string[]
  minutes: number
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
const ARGUMENTS = process.argv.slice(2).filter((argument) => argument !== '--verify')

async function main(): Promise<void> {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 }
  const add = (counts: Counts) => {
    for (const key of ['passed', 'failed', 'skipped'] as const) total[key] += counts[key]
  }
  const named = ARGUMENTS.some((argument) => argument.endsWith('.ts'))
  if (!named) for (const check of checks()) add(await runCheck(check))
  const env = await tools()
  if (named) add(await mocha({ name: 'the files named', specs: [], minutes: 30 }, env, 'live'))
  else {
    const [light, heavy, ...alone] = suites()
    const both = [mocha(light, env, 'live'), mocha(heavy, env, 'afterwards')]
    for (const counts of await Promise.all(both)) add(counts)
    for (const suite of alone) add(await mocha(suite, env, 'live'))
  }
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : ''
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`)
  process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0
}

function checks(): Step[] {
  return process.argv.includes('--verify') ? [...CHECKS, KNIP] : CHECKS
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

async function runCheck({ name, command }: Step): Promise<Counts> {
  const started = Date.now()
  console.log(`== ${name} ...`)
  const ok = await run(command)
  console.log(`== ${name}: ${ok ? 'ok' : 'FAILED'} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  return { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 }
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

/** Runs one suite; a run that dies or hangs counts as one more failure. */
async function mocha(suite: Suite, env: NodeJS.ProcessEnv, output: 'live' | 'afterwards'): Promise<Counts> {
  const folder = mkdtempSync(join(tmpdir(), 'hearth-tests-'))
  const report = join(folder, 'counts.json')
  const started = Date.now()
  console.log(`\n== ${suite.name} ...`)
  try {
    // Arguments of `npm test -- ...` are mocha's: a file, --grep.
    const command = ['mocha', '--reporter', 'scripts/counting-reporter.cjs', ...suite.specs, ...ARGUMENTS]
    const more = { env: { ...env, HEARTH_TEST_COUNTS: report }, minutes: suite.minutes, output }
    const ok = await run(command, more)
    const counts: Counts = existsSync(report)
      ? (JSON.parse(readFileSync(report, 'utf8')) as Counts)
      : { passed: 0, failed: 1, skipped: 0 }
    if (!ok && counts.failed === 0) counts.failed = 1
    const seconds = Math.round((Date.now() - started) / 1000)
    console.log(`== ${suite.name}: ${counts.passed} passed, ${counts.failed} failed (${seconds} s)`)
    return counts
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

await main()
