import { linkSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Adapter,
  MAX_TUNING_DEVIATION,
  type Tuning,
  tuningMemoryMb,
} from '../../domain/models/tuning-memory.ts'
import { readTrainer, startTrainer } from '../../node-runtime/training/trainer-process.ts'
import { loadCatalog } from '../../platform/catalog.ts'
import { type Machine, needModule, runPlain } from './machine.ts'
import { modelFolder } from './models.ts'
import type { Section } from './sections.ts'
import type { Row } from './table.ts'

const SENTENCE = 'The quick brown fox jumps over the lazy dog. '
const MEMORY_MB = 32_000
const THREADS = 2
const LORA_RANK = 16
const ACCUMULATION = 2

interface Method {
  name: string
  what: string
  adapter: Adapter
  isCheckpointed: boolean
  isWithLiger: boolean
  /** Returns the interpreter of both sides. */
  python: () => Promise<string>
}

/** The figures that a trainer or the reference measured. */
interface Measured {
  tokensPerSecond: number
  memoryMb: number
  tokens: number
}

/** Returns the sections that train with QLoRA, with LoRA, and with LoRA and Liger kernels. */
export function trainingSections(
  machine: Machine,
  ligerPython: () => Promise<string>,
): { rows: Row[]; sections: Section[] } {
  const python = async () => machine.python
  const plain = { isWithLiger: false, python }
  const methods: Method[] = [
    { name: 'qlora', what: 'QLoRA, checkpointing', adapter: 'qlora', isCheckpointed: true, ...plain },
    { name: 'lora', what: 'LoRA', adapter: 'lora', isCheckpointed: false, ...plain },
    {
      name: 'liger',
      what: 'LoRA with Liger',
      adapter: 'lora',
      isCheckpointed: false,
      isWithLiger: true,
      python: ligerPython,
    },
  ]
  const pairs = methods.map((method) => pairOf(machine, method))
  return { rows: pairs.map(({ row }) => row), sections: pairs.flatMap(({ sections }) => sections) }
}

function pairOf(machine: Machine, method: Method): { row: Row; sections: Section[] } {
  const { length, microBatch } = machine.scale.training
  const row: Row = {
    section: method.name,
    what: `train: ${method.what}, ${microBatch} × ${length} tokens`,
    unit: 'tokens/s',
    referenceName: method.isWithLiger ? 'Trainer and PEFT, with Liger' : 'Trainer and PEFT',
    notes: [],
  }
  const { name } = method
  let ourTokens: number | undefined
  const ours: Section = {
    name,
    side: 'ours',
    title: `${method.what}: Hearth's trainer`,
    limitS: 75,
    rows: [row],
    async run() {
      const { tokensPerSecond, memoryMb, tokens, isLigerNamed } = await train(machine, method)
      if (method.isWithLiger && !isLigerNamed) row.notes.push("the trainer's log does not mention Liger")
      ourTokens = tokens
      row.ours = { value: tokensPerSecond, memoryMb }
    },
  }
  const reference: Section = {
    name,
    side: 'reference',
    title: `${method.what}: ${row.referenceName}`,
    limitS: 60,
    rows: [row],
    async run(signal) {
      const python = await method.python()
      const { tokensPerSecond, memoryMb, tokens } = await trainPlainly(machine, { method, python, signal })
      row.reference = { value: tokensPerSecond, memoryMb }
      if (ourTokens !== undefined && ourTokens !== tokens)
        row.notes.push(`Hearth trained on ${ourTokens} tokens, the reference on ${tokens}`)
    },
  }
  return { row, sections: [ours, reference] }
}

/** Creates the folder and the job of a run. Both sides use the same rows and hyperparameters. */
function makeJob(machine: Machine, { name, adapter, isCheckpointed }: Method) {
  const { length, microBatch, steps } = machine.scale.training
  const folder = join(machine.dir, `job-${name}`)
  mkdirSync(join(folder, 'base'), { recursive: true })
  // A trainer can read only its own folder.
  const base = modelFolder(machine, 'llm')
  for (const file of readdirSync(base)) linkSync(join(base, file), join(folder, 'base', file))
  const data = join(folder, 'rows.jsonl')
  // The trainer truncates the prompt until the row has this length, but never truncates an output.
  const row = { instruction: SENTENCE.repeat(length), input: '', output: SENTENCE }
  const count = steps * ACCUMULATION * microBatch
  writeFileSync(data, Array.from({ length: count }, () => JSON.stringify(row)).join('\n'))
  const config = loadCatalog().model('llm-qlora-finetune')
  if (!config) throw new Error('the catalog has no llm-qlora-finetune')
  const isOnGpu = machine.gpus.length > 0
  const { values } = config.resolveHyperparameters({
    adapter,
    optimizer: adapter === 'qlora' && isOnGpu ? 'adamw_8bit' : 'adamw_torch',
    sequence_len: length,
    micro_batch_size: microBatch,
    gradient_accumulation_steps: ACCUMULATION,
    max_steps: steps,
    lora_r: LORA_RANK,
    gradient_checkpointing: isCheckpointed,
  })
  const job = {
    job_id: name,
    trainer: config.config.trainer.module,
    dataset: { format: 'jsonl', paths: [data] },
    hyperparameters: values,
    output_dir: join(folder, 'out'),
    checkpoint_dir: join(folder, 'checkpoints'),
    cache_dir: join(folder, 'cache'),
    resume_from: null,
    threads: THREADS,
    base_dir: join(folder, 'base'),
    base_revision: null,
    processes: 1,
    hardware: isOnGpu ? ('gpu' as const) : ('cpu' as const),
    gpus: machine.gpus.length,
  }
  return { folder, job }
}

/** Trains as a node does, in the confinement, until the run's artifacts are written. */
async function train(machine: Machine, method: Method): Promise<Measured & { isLigerNamed: boolean }> {
  const python = await method.python()
  const { folder, job } = makeJob(machine, method)
  const start = { driver: machine.driver, python, dir: folder, name: `bench-${method.name}`, job }
  const trainer = await startTrainer({ ...start, limitMb: MEMORY_MB, gpus: machine.gpus })
  const log: string[] = []
  await readTrainer(trainer, {
    onLine: (line) => 'message' in line && log.push(line.message),
    onText: (text) => log.push(text),
  })
  const { code } = await trainer.exited
  if (code !== 0) throw new Error(`the trainer ended with status ${code}: ${log.at(-1) ?? ''}`)
  const text = log.join('\n')
  const device = /Training [\d,]+ parameters on (\w+)/.exec(text)?.[1]
  const expected = machine.gpus.length > 0 ? 'cuda' : 'cpu'
  machine.check(`training on ${expected}: ${method.what}`, device === expected, `the trainer used ${device}`)
  const [, tokens = '', memory = ''] = /Trained on ([\d,]+) tokens .*peak memory ([\d,]+) MB/.exec(text) ?? []
  const measured = {
    tokensPerSecond: steadyRate(text),
    memoryMb: numberOf(memory),
    tokens: numberOf(tokens),
    isLigerNamed: /liger/i.test(text),
  }
  if (!(measured.tokensPerSecond > 0 && measured.memoryMb > 0))
    throw new Error("the trainer's log has no figures")
  if (machine.gpus.length > 0 && !method.isWithLiger) checkReservation(machine, method, measured.memoryMb)
  return measured
}

/** Returns the tokens per second after the first step, which loads kernels. Each logged rate covers several steps. */
function steadyRate(log: string): number {
  let [steps, seconds, last] = [0, 0, 0]
  for (const [, at = '', rate = ''] of log.matchAll(/^Step (\d+) of .* ([\d,]+) tokens\/s$/gm)) {
    if (last > 0) {
      steps += Number(at) - last
      seconds += (Number(at) - last) / numberOf(rate)
    }
    last = Number(at)
  }
  return steps / seconds
}

const numberOf = (text: string): number => Number(text.replaceAll(',', ''))

/** Trains the same rows with transformers' Trainer and PEFT. */
async function trainPlainly(
  machine: Machine,
  { method, python, signal }: { method: Method; python: string; signal: AbortSignal },
): Promise<Measured> {
  for (const module of ['peft', 'accelerate']) await needModule(python, module, module)
  if (method.adapter === 'qlora') await needModule(python, 'bitsandbytes', 'bitsandbytes')
  const { folder, job } = makeJob(machine, { ...method, name: `${method.name}-reference` })
  const file = join(folder, 'job.json')
  writeFileSync(file, JSON.stringify(job))
  const program = join(import.meta.dirname, 'trainer.py')
  const args = [program, file, ...(method.isWithLiger ? ['--liger'] : [])]
  const plain = await runPlain<{ tokens: number; tokens_per_second: number; peak_mb: number }>(machine, {
    python,
    args,
    signal,
  })
  return { tokens: plain.tokens, tokensPerSecond: plain.tokens_per_second, memoryMb: plain.peak_mb }
}

/** Compares the measured peak with what the platform reserves for such a run. */
function checkReservation(machine: Machine, { adapter, what, isCheckpointed }: Method, peakMb: number): void {
  const { length, microBatch } = machine.scale.training
  const tuning: Tuning = {
    shape: machine.scale.llm,
    adapter,
    isOptimizer8Bit: adapter === 'qlora',
    loraRank: LORA_RANK,
    tokens: microBatch * length,
    isCheckpointed,
    isOnCpu: false,
  }
  const reservedMb = tuningMemoryMb(tuning)
  const deviation = reservedMb / peakMb - 1
  const detail = `${reservedMb} MB reserved, ${peakMb} MB at the peak, ${(100 * deviation).toFixed(0)} % deviation`
  machine.check(`reservation: ${what}`, Math.abs(deviation) <= MAX_TUNING_DEVIATION, detail)
}
