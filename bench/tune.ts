// Compares fine-tuning a small language model with a plain transformers and PEFT training loop that uses the same
// settings and batches. Each pair runs back to back: npm run bench:tune [-- --pairs 3 --adapter lora --adapter qlora
// --threads 1]
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensurePythonEnv, pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { readConfig } from '../platform/config.ts'

const GOAL = 0.95
const ROOT = join(import.meta.dirname, '..')
const WORDS = 'the quick brown fox jumps over a lazy dog while two and three make five'.split(' ')

interface Figure {
  /** On a busy machine the elapsed time depends on other work; the CPU time depends only on this bench. */
  cpuSeconds: number
  tokensPerSecond: number
  peakMb: number
}

const { values } = parseArgs({
  options: {
    pairs: { type: 'string', default: '3' },
    adapter: { type: 'string', multiple: true, default: ['lora', 'qlora'] },
    threads: { type: 'string', default: '1' },
    hidden: { type: 'string', default: '256' },
    layers: { type: 'string', default: '4' },
    rows: { type: 'string', default: '160' },
    words: { type: 'string', default: '60' },
    model: { type: 'string' },
  },
})
const { python } = await ensurePythonEnv('llm', {
  cacheDir: readConfig().HEARTH_CACHE_DIR,
  log: (line) => console.log(line),
})
const dir = mkdtempSync(join(tmpdir(), 'hearth-bench-tune-'))

function main(): void {
  const base = values.model ?? makeModel()
  const data = makeRows()
  for (const adapter of values.adapter) {
    const job = makeJob(adapter, base, data)
    const pairs = Array.from({ length: Number(values.pairs) }, () => ({ plain: plain(job), own: own(job) }))
    const middle = (of: (pair: (typeof pairs)[number]) => number) => median(pairs.map(of))
    const ratios = pairs.map((pair) => pair.own.tokensPerSecond / pair.plain.tokensPerSecond)
    const ratio = median(ratios)
    console.log(
      `${adapter.padEnd(6)} ${rate(middle(({ own }) => own.tokensPerSecond))}, ` +
        `${middle(({ own }) => own.peakMb)} MB; plain loop ${rate(middle((pair) => pair.plain.tokensPerSecond))}, ` +
        `${middle((pair) => pair.plain.peakMb)} MB; ratio ${ratio.toFixed(2)} ` +
        `(${ratios.map((one) => one.toFixed(2)).join(' ')}), goal ${GOAL} ` +
        `${ratio >= GOAL ? 'met' : 'MISSED'}; CPU time ${middle(({ own }) => own.cpuSeconds).toFixed(1)} s ` +
        `vs. ${middle((pair) => pair.plain.cpuSeconds).toFixed(1)} s, ` +
        `ratio ${median(pairs.map((pair) => pair.plain.cpuSeconds / pair.own.cpuSeconds)).toFixed(2)}`,
    )
  }
}

const rate = (value: number): string => `${Math.round(value)} tokens/s`

function makeModel(): string {
  const folder = join(dir, 'model')
  const maker = join(ROOT, 'test', 'support', 'builders', 'models', 'tiny_llm.py')
  run([maker, folder, '--hidden', values.hidden, '--layers', values.layers])
  return folder
}

function makeRows(): string {
  const text = (from: number, count: number) =>
    Array.from({ length: count }, (_, index) => WORDS[(from * 7 + index * index) % WORDS.length]).join(' ')
  const most = Number(values.words)
  const rows = Array.from({ length: Number(values.rows) }, (_, index) => {
    const words = 10 + ((index * 13) % most)
    return JSON.stringify({ instruction: text(index, words), input: '', output: text(index + 1, words) })
  })
  const file = join(dir, 'rows.jsonl')
  writeFileSync(file, rows.join('\n'))
  return file
}

function makeJob(adapter: string, base: string, data: string): string {
  const model = loadCatalog().model('llm-qlora-finetune')
  if (!model) throw new Error('the catalog has no llm-qlora-finetune')
  const chosen = {
    adapter,
    epochs: 1,
    sequence_len: 2048,
    micro_batch_size: 2,
    gradient_accumulation_steps: 4,
  }
  const folder = join(dir, adapter)
  mkdirSync(folder)
  const file = join(folder, 'job.json')
  const job = {
    trainer: model.config.trainer.module,
    dataset: { format: 'jsonl', paths: [data] },
    hyperparameters: model.resolveHyperparameters(chosen).values,
    output_dir: join(folder, 'out'),
    checkpoint_dir: join(folder, 'checkpoints'),
    threads: Number(values.threads),
    base_dir: base,
  }
  writeFileSync(file, JSON.stringify(job))
  return file
}

function own(job: string): Figure {
  const said = run(['-m', 'hearth_trainers', job])
  const [, tokens = '', cpu = '', peak = ''] =
    /\(([\d,]+) tokens\/s\), ([\d.]+) s of processor time; peak memory ([\d,]+) MB/.exec(said) ?? []
  return { tokensPerSecond: number(tokens), cpuSeconds: number(cpu), peakMb: number(peak) }
}

function plain(job: string): Figure {
  const said = run([join(import.meta.dirname, 'tune', 'plain.py'), job])
  const { tokens, seconds, cpu_seconds, peak_mb } = JSON.parse(said.trimEnd().split('\n').at(-1) ?? '') as {
    tokens: number
    seconds: number
    cpu_seconds: number
    peak_mb: number
  }
  return { tokensPerSecond: tokens / seconds, cpuSeconds: cpu_seconds, peakMb: peak_mb }
}

function run(args: readonly string[]): string {
  const env = pythonProcessEnv({
    PYTHONPATH: join(ROOT, 'node-runtime', 'trainers'),
    OMP_NUM_THREADS: values.threads,
  })
  return execFileSync(python, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

const number = (text: string): number => Number(text.replaceAll(',', ''))

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
}

try {
  main()
} finally {
  rmSync(dir, { recursive: true, force: true })
}
