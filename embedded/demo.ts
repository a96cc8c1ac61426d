import { parseArgs } from 'node:util'
import { type Hearth, hearth } from '../client/index.ts'
import { ensurePackages } from '../node-runtime/environments/npm-env.ts'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { readConfig } from '../platform/config.ts'
import type { Config } from '../platform/config.ts'
import { chat, importTinyModel } from './demo/chat.ts'
import { Progress, type Rows } from './demo/progress.ts'
import {
  type DescribedPatient,
  describeRows,
  embed,
  importWordModel,
  meanProgression,
  search,
} from './demo/search.ts'
import {
  exportTable,
  infer,
  inferAsync,
  inferMany,
  number,
  queryTable,
  register,
  train,
  uploadTable,
} from './demo/steps.ts'
import { explain, StartError, UsageError } from './options.ts'
import { StoppedError, stopRequested } from './stop-requested.ts'
import { startPlatform } from './supervisor.ts'
import type { Platform } from './supervisor.ts'

const HELP = `npm run demo [-- --keep] [--no-llm]

Starts the platform, trains a regression model on a real table and calls it, chats with a small language model
built on this machine, searches the table's rows by embeddings, has a tool query the table, and then stops.

  --keep     leave the platform up until Ctrl-C
  --no-llm   skip the chat; without this flag, llama.cpp is installed once per machine (85 MB, a few seconds)
  --help     show this help
`
const WARM_REQUESTS = 100
const QUESTION = 'fast-progression'
const NEAREST = 20
const QUERY = 'select count(*) as patients, round(avg(target), 1) as progression from data where bmi >= 30'
/** The exit code that a shell expects after Ctrl-C. */
const STOPPED = 130

async function main(): Promise<void> {
  const options = parse(process.argv.slice(2))
  if (options.help) return console.log(HELP)
  const config = readConfig()
  const stop = stopRequested()
  const progress = new Progress(stop.signal)

  const { python } = await progress.step(
    'Python environment',
    () => pythonEnvironment(config, stop.signal),
    () => 'ready',
  )
  const platform = await progress.step(
    'Start the platform',
    () => start(config, stop.signal),
    ({ ready }) => ready.base_url,
  )
  let failed = true
  try {
    const csv = await exportTable(python)
    await Promise.race([mainJob(platform, csv, progress), stop.requested])
    stop.signal.throwIfAborted()
    if (options.llm) await Promise.race([chatJob(platform, config, progress), stop.requested])
    stop.signal.throwIfAborted()
    await Promise.race([searchJob(platform, { csv, config, progress }), stop.requested])
    stop.signal.throwIfAborted()
    await Promise.race([toolJob(platform, { csv, config, progress }), stop.requested])
    stop.signal.throwIfAborted()
    failed = false
    report(progress.rows, platform)
    if (options.keep) await waitForStop(stop.requested)
  } finally {
    if (failed && !stop.signal.aborted) report(progress.rows, platform)
    console.log('\nStopping ...')
    const started = performance.now()
    await platform.stop()
    console.log(`Everything is stopped (${seconds(performance.now() - started)}).`)
  }
}

/** The main job, over HTTP only. */
async function mainJob({ ready }: Platform, csv: Buffer, progress: Progress): Promise<void> {
  const h = clientOf(ready)
  const dataset = await progress.step(
    'Upload the table',
    () => uploadTable(h, csv),
    (set) => `${set.num_samples} rows`,
  )
  const { jobId } = await progress.step(
    'Train',
    () => train(h, dataset.dataset_id, progress.say),
    ({ run }) => quality(run.metrics),
  )
  const endpoint = await progress.step(
    'Register the model',
    () => register(h, jobId),
    ({ name }) => name,
  )
  await progress.step(
    'Call it cold, once',
    () => infer(h, endpoint),
    (task) => `${task.model_state}: ${brief(task.result)}`,
  )
  await progress.step(
    `Call it warm, ${WARM_REQUESTS} times`,
    () => inferMany(h, endpoint, WARM_REQUESTS),
    spread,
  )
  await progress.step(
    'Call it asynchronously, once',
    () => inferAsync(h, endpoint),
    (task) => task.status,
  )
}

/** Runs a chat if llama.cpp is available; otherwise the demo skips it. */
async function chatJob({ ready }: Platform, config: Config, progress: Progress): Promise<void> {
  const options = { cacheDir: config.HEARTH_CACHE_DIR, log: progress.say }
  if (!(await isInstalled(progress, 'llama.cpp', () => ensurePackages('llamacpp', options), 'no chat')))
    return
  const model = await progress.step(
    'Import a language model',
    () => importTinyModel(ready),
    (name) => name,
  )
  for (const state of ['cold', 'warm']) {
    await progress.step(
      `Chat with it, ${state}`,
      async () => {
        progress.write('  ')
        const answer = await chat(ready, { model, content: 'Who are you?' }, progress.write)
        progress.write('\n')
        return answer
      },
      ({ words, firstMs }) => `${words} tokens, first token after ${seconds(firstMs)}`,
    )
  }
}

/** Runs a semantic search over the rows, if the environment for embedding models can be installed. */
async function searchJob(
  { ready }: Platform,
  { csv, config, progress }: { csv: Buffer; config: Config; progress: Progress },
): Promise<void> {
  const options = { cacheDir: config.HEARTH_CACHE_DIR, log: progress.say }
  const install = () => ensurePythonEnv('specialist', options)
  if (!(await isInstalled(progress, 'Environment for embeddings', install, 'no search'))) return
  const h = clientOf(ready)
  const all = describeRows(csv.toString())
  // Don't search the texts that the model learned from: they name the outcomes.
  const [learnt, rows] = [0, 1].map((half) => all.filter((_, i) => i % 2 === half)) as [
    DescribedPatient[],
    DescribedPatient[],
  ]
  const model = await progress.step(
    'Import an embedding model',
    () => importWordModel(ready, learnt),
    (name) => `${name}, built from the words in half of the rows`,
  )
  const texts = rows.map(({ text }) => text)
  const vectors = await progress.step(
    'Embed the other half',
    () => embed(h, model, texts),
    (found) => `${found.length} vectors of ${found[0]?.length} numbers`,
  )
  await progress.step(
    'Search it',
    async () => {
      const found = await search(h, { model, rows, vectors }, { question: QUESTION, count: NEAREST })
      progress.say(`"${QUESTION}", which appears in none of the searched texts, is nearest to`)
      for (const { text, progression } of found.nearest.slice(0, 3))
        progress.say(`${text}: progression ${progression}`)
      return found
    },
    ({ nearest, ms }) =>
      `${ms.toFixed(1)} ms; mean progression ${mean(nearest)} of the nearest ${NEAREST}, ${mean(rows)} of all`,
  )
}

/** Has a tool query the table; on a machine that cannot sandbox tools, prints the reason instead. */
async function toolJob(
  { ready }: Platform,
  { csv, config, progress }: { csv: Buffer; config: Config; progress: Progress },
): Promise<void> {
  // The node would install the environment too, but without reporting its progress here.
  const options = { cacheDir: config.HEARTH_CACHE_DIR, log: progress.say }
  const install = () => ensurePythonEnv('tools', options)
  if (!(await isInstalled(progress, 'Environment for tools', install, 'no tool'))) return
  const h = clientOf(ready)
  await progress.step(
    'Have a tool query the table',
    async () => {
      progress.say(QUERY)
      const answer = await queryTable(h, csv, QUERY)
      progress.say('refused' in answer ? `no tool: ${answer.refused}` : JSON.stringify(answer.rows[0]))
      return answer
    },
    (answer) => ('refused' in answer ? 'refused on this machine' : brief(answer.rows[0])),
  )
}

/** Installs a component as its own step. If that fails, prints what the demo leaves out and returns false. */
async function isInstalled(
  progress: Progress,
  step: string,
  install: () => Promise<unknown>,
  leftOut: string,
): Promise<boolean> {
  try {
    await progress.step(step, install, () => 'ready')
    return true
  } catch (err) {
    progress.say(`${leftOut}: ${(err as Error).message}`)
    return false
  }
}

const clientOf = ({ base_url: baseUrl, api_key: apiKey }: Platform['ready']): Hearth =>
  hearth({ baseUrl, apiKey })

const mean = (rows: readonly DescribedPatient[]): string => meanProgression(rows).toFixed(0)

async function pythonEnvironment(config: Config, signal: AbortSignal) {
  try {
    return await ensurePythonEnv('tabular', { cacheDir: config.HEARTH_CACHE_DIR, log: printLine, signal })
  } catch (cause) {
    // Ctrl-C in a terminal also ends pip, which then reports its own failure.
    signal.throwIfAborted()
    throw new StartError(`Python: ${(cause as Error).message}`, { cause })
  }
}

function start(config: Config, signal: AbortSignal): Promise<Platform> {
  const options = { dataDir: config.HEARTH_DATA_DIR, port: config.HEARTH_PORT, fresh: false }
  return startPlatform(options, config, { quiet: 'children', signal })
}

function report(rows: Rows, { ready, logs }: Platform): void {
  const width = Math.max(...rows.map(([, result]) => result.length))
  console.log('\nWhat happened')
  for (const [step, result, ms] of rows) {
    console.log(`  ${step.padEnd(30)} ${result.padEnd(width)}  ${seconds(ms).padStart(9)}`)
  }
  console.log('\nWhere to look')
  console.log(`  API          ${ready.base_url}/api/builder/v1`)
  console.log(`  Docs         ${ready.base_url}/docs`)
  console.log(`  Temporal UI  ${ready.temporal_ui_url ?? ready.temporal_address}`)
  console.log(`  Logs         ${logs}`)
  console.log('  These are available while the platform is up: npm start, or npm run demo -- --keep.')
}

async function waitForStop(requested: Promise<void>): Promise<void> {
  console.log('\nThe platform keeps running. Press Ctrl-C to stop it.')
  await requested
}

function quality(metrics: Record<string, unknown> | null | undefined): string {
  const scores = ['mae', 'rmse', 'r2'].flatMap((name) => {
    const value = metrics?.[name]
    return typeof value === 'number' ? [`${name} ${number(value).trim()}`] : []
  })
  return scores.join(', ') || 'completed'
}

function spread(times: number[]): string {
  const at = (share: number) => (times[Math.floor(times.length * share)] ?? 0).toFixed(1)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
}

function brief(value: unknown): string {
  return JSON.stringify(value).slice(0, 60)
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(1)} s`
}

function printLine(line: string): void {
  console.log(`  ${line}`)
}

function parse(args: string[]): { keep: boolean; help: boolean; llm: boolean } {
  try {
    const flag = { type: 'boolean', default: false } as const
    const { values } = parseArgs({ args, options: { keep: flag, help: flag, 'no-llm': flag } })
    return { keep: values.keep, help: values.help, llm: !values['no-llm'] }
  } catch (err) {
    throw new UsageError(`${(err as Error).message.replace(/\. .*$/s, '')}. See npm run demo -- --help.`)
  }
}

main().then(
  () => process.exit(0),
  (err: unknown) => process.exit(err instanceof StoppedError ? STOPPED : explain(err)),
)
