// Checks on a machine with an NVIDIA GPU that everything a node starts computes on it, inside the node's confinement:
// npm run bench:gpu. Takes at most 8 minutes, and exits with 1 if a check fails, or 2 if the machine lacks something.
// `--rehearse` runs the steps with a tiny model on the CPU, to test the script itself. Also prints figures, each next
// to the bare libraries' figure.
import { spawnSync } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  type Adapter,
  MAX_TUNING_DEVIATION,
  type Tuning,
  tuningMemoryMb,
  type TuningShape,
} from '../domain/models/tuning-memory.ts'
import { ensurePythonEnv, findPython, pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { probeCuda } from '../node-runtime/hardware/cuda-probe.ts'
import { devicesOf, findGpus, gpuMemoryMb } from '../node-runtime/hardware/nvidia.ts'
import { LoadDeadline } from '../node-runtime/models/load-deadline.ts'
import { ModelServer } from '../node-runtime/models/server.ts'
import { ProcessDriver } from '../node-runtime/processes/process-driver.ts'
import { readTrainer, startTrainer } from '../node-runtime/training/trainer-process.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { readConfig } from '../platform/config.ts'
import { chatsAtOnce, timeToFirstToken } from './gpu/chats.ts'

const { values } = parseArgs({ options: { rehearse: { type: 'boolean', default: false } } })
const isReal = !values.rehearse
const TIMEOUT_MS = 480_000
const FAILED = 1
const LACKING = 2
const ROOT = join(import.meta.dirname, '..')
const MAKER = join(ROOT, 'test', 'support', 'builders', 'models', 'tiny_llm.py')
const SENTENCE = 'The quick brown fox jumps over the lazy dog. '
const SHAPE: TuningShape = isReal
  ? { parameters: 1.24e9, layers: 16, hidden: 2_048, intermediate: 8_192, vocabulary: 128_000 }
  : { parameters: 1e5, layers: 1, hidden: 32, intermediate: 64, vocabulary: 512 }
const LENGTH = isReal ? 2_048 : 128
const MICRO_BATCH = isReal ? 4 : 1
const STEPS = isReal ? 8 : 3
const CHATS_AT_ONCE = [1, 4, 16]
const CHAT_TOKENS = isReal ? 64 : 8
/** A sentence has about ten tokens. */
const PROMPT_SENTENCES = isReal ? 800 : 10

const catalog = loadCatalog()
const profile = catalog.profile('llm-transformers')
const config = catalog.model('llm-qlora-finetune')
if (!profile || !config) throw new Error('the catalog lacks llm-transformers or llm-qlora-finetune')
const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: (line: string) => console.log(`  ${line}`) }
const { gpus } = isReal ? await findGpus() : { gpus: [] }
const devices = devicesOf(gpus.slice(0, 1))
if (isReal && gpus.length === 0)
  lacks(
    'nvidia-smi lists no NVIDIA GPU on this machine. Run this bench on a machine with a GPU and its driver.',
  )
const dir = mkdtempSync(join(tmpdir(), 'hearth-bench-gpu-'))
const launcher = await findPython(options)
const driver = new ProcessDriver({ stateDir: join(dir, 'node'), python: async () => launcher })
const timer = setTimeout(() => {
  console.log(`FAILED  not finished after ${TIMEOUT_MS / 60_000} minutes`)
  void end(FAILED)
}, TIMEOUT_MS)
const failures: string[] = []

function lacks(what: string): never {
  console.error(`${what} Nothing was measured.`)
  process.exit(LACKING)
}

function check(name: string, isRight: boolean, detail: string): void {
  console.log(`${isRight ? 'ok    ' : 'FAILED'}  ${name}: ${detail}`)
  if (!isRight) failures.push(name)
}

const figure = (name: string, detail: string): void => console.log(`figure  ${name}: ${detail}`)

/** Runs a program that uses only the libraries, outside the confinement, and returns the JSON of its last line. */
function runPlain<T>(python: string, args: readonly string[]): T {
  const env = pythonProcessEnv({ PYTHONPATH: join(ROOT, 'node-runtime', 'trainers') })
  const { status, stdout, stderr } = spawnSync(python, args, { env, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args[0]} ended with ${status}: ${stderr.slice(-500)}`)
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as T
}

async function end(code: number): Promise<never> {
  await driver.stopAll({ graceMs: 0 })
  rmSync(dir, { recursive: true, force: true })
  process.exit(code)
}

async function checkProbe(): Promise<void> {
  const found = await probeCuda(driver, launcher, { devices })
  const detail = 'devices' in found ? `${found.devices} devices` : found.reason
  check('cuInit inside the confinement', 'devices' in found, detail)
}

function makeModel(python: string): string {
  const folder = join(dir, 'model')
  const { hidden, layers, intermediate, vocabulary } = SHAPE
  const heads = isReal ? ['--heads=32', '--kv-heads=8'] : []
  const sizes = [`--hidden=${hidden}`, `--layers=${layers}`, `--intermediate=${intermediate}`]
  const vocab = ['--vocab=512', `--extra-vocab=${vocabulary - 512}`, '--positions=16384', '--tied']
  const made = spawnSync(python, [MAKER, folder, ...sizes, ...heads, ...vocab], {
    env: pythonProcessEnv({}),
    encoding: 'utf8',
  })
  if (made.status !== 0) throw new Error(`the test model could not be created: ${made.stderr}`)
  return folder
}

/** Serves the model as a node does, and finds the server in the driver's process list while it answers. */
async function checkChat(python: string, modelDir: string): Promise<void> {
  using deadline = new LoadDeadline({ stallMs: 240_000 })
  const spec = { name: 'bench-chat', profile: profile!, python, modelDir, ramMb: 8_000 }
  const server = await ModelServer.start(
    { process: driver, container: undefined },
    { ...spec, gpus: devices },
    { deadline, stopping: new AbortController().signal },
  )
  try {
    const body = JSON.stringify({
      model: 'bench',
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 64,
    })
    const began = performance.now()
    const answer = await server.pool.request({ method: 'POST', path: '/v1/chat/completions', body })
    const { usage } = (await answer.body.json()) as { usage?: { completion_tokens: number } }
    const seconds = (performance.now() - began) / 1_000
    const tokens = usage?.completion_tokens ?? 0
    check('chat', answer.statusCode === 200, `${tokens} tokens in ${seconds.toFixed(1)} s`)
    if (isReal) {
      const mb = (await gpuMemoryMb(await server.pids())) ?? 0
      check('the chat server computes on the GPU', mb > 0, `nvidia-smi lists ${mb} MB for its processes`)
    }
    await measureChats(server)
  } finally {
    await server.stop({ graceMs: 0 })
  }
}

async function measureChats(server: ModelServer): Promise<void> {
  for (const count of CHATS_AT_ONCE) {
    const { tokens, tokensPerSecond } = await chatsAtOnce(server, count, CHAT_TOKENS)
    figure(`chat, ${count} at once`, `${tokensPerSecond.toFixed(1)} tokens/s in total (${tokens} tokens)`)
  }
  const { promptTokens, ms } = await timeToFirstToken(server, SENTENCE.repeat(PROMPT_SENTENCES))
  figure('first token', `${ms.toFixed(0)} ms after a prompt of ${promptTokens} tokens`)
}

function measureGenerate(python: string, modelDir: string): void {
  const counts = [CHAT_TOKENS, 10 * PROMPT_SENTENCES, ...CHATS_AT_ONCE].map(String)
  const program = join(import.meta.dirname, 'gpu', 'generate.py')
  const alone = runPlain<{ rates: Record<string, number>; first_token_ms: number }>(python, [
    program,
    modelDir,
    ...counts,
  ])
  const rates = Object.entries(alone.rates).map(
    ([rows, rate]) => `${rows} at once ${rate.toFixed(1)} tokens/s`,
  )
  figure('generate() alone', `${rates.join(', ')}; first token ${alone.first_token_ms.toFixed(0)} ms`)
}

/** Trains a few steps as a node does, and compares the peak with what the platform reserves. */
async function checkTuning(
  python: string,
  base: string,
  { adapter, optimizer, isCheckpointed }: { adapter: Adapter; optimizer: string; isCheckpointed: boolean },
): Promise<void> {
  const name = `${adapter}, ${optimizer}, ${isCheckpointed ? 'with' : 'without'} checkpointing`
  const folder = join(dir, `${adapter}-job`)
  mkdirSync(folder)
  // A trainer can read only its own folder.
  mkdirSync(join(folder, 'base'))
  for (const file of readdirSync(base)) linkSync(join(base, file), join(folder, 'base', file))
  const data = join(folder, 'rows.jsonl')
  // The trainer truncates the prompt until the row has LENGTH tokens, but never truncates an output.
  const row = { instruction: SENTENCE.repeat(LENGTH), input: '', output: SENTENCE }
  writeFileSync(data, Array.from({ length: 64 }, () => JSON.stringify(row)).join('\n'))
  const chosen = { adapter, optimizer, sequence_len: LENGTH, micro_batch_size: MICRO_BATCH, lora_r: 16 }
  const steps = { max_steps: STEPS, gradient_accumulation_steps: 2, gradient_checkpointing: isCheckpointed }
  const job = {
    job_id: name,
    trainer: config!.config.trainer.module,
    dataset: { format: 'jsonl', paths: [data] },
    hyperparameters: config!.resolveHyperparameters({ ...chosen, ...steps }).values,
    output_dir: join(folder, 'out'),
    checkpoint_dir: join(folder, 'checkpoints'),
    cache_dir: join(folder, 'cache'),
    resume_from: null,
    threads: 2,
    base_dir: join(folder, 'base'),
    base_revision: null,
    processes: 1,
    hardware: isReal ? ('gpu' as const) : ('cpu' as const),
    gpus: isReal ? 1 : 0,
  }
  const trainer = await startTrainer({
    driver,
    python,
    dir: folder,
    name: `bench-${adapter}`,
    job,
    limitMb: 32_000,
    gpus: devices,
  })
  const log: string[] = []
  await readTrainer(trainer, {
    onLine: (line) => 'message' in line && log.push(line.message),
    onText: (text) => log.push(text),
  })
  const { code } = await trainer.exited
  const text = log.join('\n')
  const on = /Training [\d,]+ parameters on (\w+)/.exec(text)?.[1] ?? 'nothing'
  const [, rate = '', peak = ''] = /\(([\d,]+) tokens\/s\).*peak memory ([\d,]+) MB/.exec(text) ?? []
  const isDone = code === 0 && on === (isReal ? 'cuda' : 'cpu')
  check(name, isDone, isDone ? `${rate} tokens/s on ${on}` : `status ${code}, on ${on}: ${log.at(-1) ?? ''}`)
  if (!isDone) return
  measurePlainLoop(python, { name, folder, job })
  if (!isReal) return
  const tuning: Tuning = {
    shape: SHAPE,
    adapter,
    isOptimizer8Bit: optimizer.includes('8bit'),
    loraRank: 16,
    tokens: MICRO_BATCH * LENGTH,
    isCheckpointed,
    isOnCpu: false,
  }
  const reservedMb = tuningMemoryMb(tuning)
  const peakMb = Number(peak.replaceAll(',', ''))
  const deviation = reservedMb / peakMb - 1
  const detail = `${reservedMb} MB reserved, ${peakMb} MB at the peak, ${(100 * deviation).toFixed(0)} % deviation`
  check(`reservation of ${adapter}`, Math.abs(deviation) <= MAX_TUNING_DEVIATION, detail)
}

function measurePlainLoop(
  python: string,
  { name, folder, job }: { name: string; folder: string; job: object },
): void {
  const file = join(folder, 'plain.json')
  writeFileSync(file, JSON.stringify(job))
  const plain = runPlain<{ tokens: number; seconds: number; peak_mb: number }>(python, [
    join(import.meta.dirname, 'tune', 'plain.py'),
    file,
  ])
  const rate = Math.round(plain.tokens / plain.seconds)
  figure(`plain loop of ${name}`, `${rate} tokens/s, peak memory ${plain.peak_mb} MB`)
}

try {
  console.log(isReal ? gpus.map(({ name, memory_mb }) => `${name}, ${memory_mb} MB`).join('\n') : 'rehearsal')
  if (isReal) await checkProbe()
  console.log(
    'The environment `llm` (5 GB) is installed on first use, which takes minutes and needs the network.',
  )
  const { python } = await ensurePythonEnv('llm', options).catch((err: unknown) =>
    lacks(`The Python environment llm cannot be installed: ${String(err)}.`),
  )
  const model = makeModel(python)
  await checkChat(python, model)
  measureGenerate(python, model)
  const optimizer = isReal ? 'adamw_8bit' : 'adamw_torch'
  await checkTuning(python, model, { adapter: 'qlora', optimizer, isCheckpointed: true })
  await checkTuning(python, model, { adapter: 'lora', optimizer: 'adamw_torch', isCheckpointed: false })
} catch (err) {
  check('the bench', false, err instanceof Error ? err.message : String(err))
}
clearTimeout(timer)
console.log(failures.length === 0 ? 'All checks passed.' : `${failures.length} checks failed.`)
await end(failures.length === 0 ? 0 : FAILED)
