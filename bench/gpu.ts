// Compares what a node runs with the bare libraries, on the same models, data and settings, and checks that it computes
// on the GPU, inside the node's confinement: npm run bench:gpu. Takes at most 8 minutes, not counting the
// installation of Python packages. Prints one table in Markdown and writes a JSON file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensurePythonEnv, findPython, hasPythonEnv } from '../node-runtime/environments/python-env.ts'
import { probeCuda } from '../node-runtime/hardware/cuda-probe.ts'
import { devicesOf, findGpus } from '../node-runtime/hardware/nvidia.ts'
import { ProcessDriver } from '../node-runtime/processes/process-driver.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { readConfig } from '../platform/config.ts'
import { ligerPython, sentenceTransformersPython, vllmPython } from './gpu/environments.ts'
import { hasModule, type Machine } from './gpu/machine.ts'
import { makeModel, type ModelName } from './gpu/models.ts'
import { otherSections } from './gpu/others.ts'
import { SCALES } from './gpu/scales.ts'
import { type Outcome, runSections, type Section } from './gpu/sections.ts'
import { servingSections } from './gpu/serving.ts'
import { markdownOf, recordOf, type Row } from './gpu/table.ts'
import { trainingSections } from './gpu/training.ts'
import { lack } from './needs.ts'

/** Leaves time to end processes and to print the table before eight minutes are over. */
const BUDGET_MS = 470_000
/** The model of each section. */
const MODEL_OF: Readonly<Record<string, ModelName>> = { embeddings: 'embedder', image: 'image' }

const USAGE = `Usage: npm run bench:gpu -- [options]

Compares what a node runs on this machine's GPU with the bare libraries, in at most 8 minutes.

  --scale NAME     ${Object.keys(SCALES).join(' or ')}; tiny also runs on a CPU and only tests the script itself
  --only NAME      run one kind of section, such as lora, chat or embeddings; can be repeated
  --json FILE      where to write the figures; by default in the temporary folder
  --python PYTHON  an interpreter to use instead of the environment llm
  --vllm PYTHON    an interpreter with vLLM
  --help           show this help

Exits with 1 if a check or a section fails, or with 2 if the machine lacks something.`
const values = readOptions()
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}
const scale = SCALES[values.scale] ?? lack(`--scale must be one of ${Object.keys(SCALES).join(', ')}`)
const { gpus } = await findGpus()
const [gpu] = gpus
if (scale.isReal && !gpu)
  lack(
    'nvidia-smi lists no NVIDIA GPU on this machine. Run this bench on a machine with a GPU and its driver, or with --scale tiny. Nothing was measured.',
  )
const where = gpu ? `${gpu.name}, ${gpu.memory_mb} MB` : `CPU run on ${availableParallelism()} cores`
const log = (line: string): void => console.log(line)
const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: (line: string) => log(`  ${line}`) }
const checks: { name: string; isRight: boolean; detail: string }[] = []

function readOptions() {
  try {
    return parseArgs({
      options: {
        scale: { type: 'string', default: '1b' },
        only: { type: 'string', multiple: true },
        json: { type: 'string', default: join(tmpdir(), 'hearth-bench-gpu.json') },
        python: { type: 'string' },
        vllm: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (err) {
    return lack(`${err instanceof Error ? err.message : String(err)}\n\n${USAGE}`)
  }
}

async function main(): Promise<number> {
  log(`${where}, scale ${values.scale}`)
  const python = values.python === undefined ? await installed() : await checked(values.python)
  let installation: Promise<string> | undefined
  const peer = () => (installation ??= sentenceTransformersPython(python, options))
  // The section reports a failure.
  if (values.only?.includes('embeddings') ?? true) await peer().catch(() => {})
  const began = performance.now()
  const dir = mkdtempSync(join(tmpdir(), 'hearth-bench-gpu-'))
  const launcher = await findPython(options)
  const driver = new ProcessDriver({ stateDir: join(dir, 'node'), python: async () => launcher })
  const machine: Machine = {
    scale,
    gpus: devicesOf(gpus.slice(0, 1)),
    dir,
    driver,
    python,
    profileOf,
    check,
  }
  try {
    const { rows, sections } = chosen(machine, peer)
    const killAll = () => driver.stopAll({ graceMs: 0 })
    const run = { patience: scale.patience, endsAt: began + BUDGET_MS, killAll, log }
    const outcomes = await runSections([...preparations(machine, launcher, sections), ...sections], run)
    report(rows, outcomes, (performance.now() - began) / 1_000)
    const isFailed =
      outcomes.some(({ state }) => state === 'failed') || checks.some(({ isRight }) => !isRight)
    return isFailed ? 1 : 0
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Without these packages, every section would fail with another error. */
async function checked(python: string): Promise<string> {
  for (const name of ['torch', 'transformers'])
    if (!(await hasModule(python, name)))
      lack(
        `${python} (--python) cannot import ${name}. It needs the packages of the environment llm. Nothing was measured.`,
      )
  return python
}

async function installed(): Promise<string> {
  if (!(await hasPythonEnv('llm', options)))
    log('The environment `llm` (5 GB) is installed once, which takes minutes and needs the network.')
  try {
    return (await ensurePythonEnv('llm', options)).python
  } catch (err) {
    return lack(
      `The Python environment llm cannot be installed: ${String(err)}. Pass --python to use another one. Nothing was measured.`,
    )
  }
}

function profileOf(id: string) {
  const profile = loadCatalog().profile(id)
  if (!profile) throw new Error(`the catalog has no ${id}`)
  return profile
}

function check(name: string, isRight: boolean, detail: string): void {
  log(`  ${isRight ? 'ok' : 'FAILED'}: ${name}: ${detail}`)
  checks.push({ name, isRight, detail })
}

/** Returns the rows and sections that `--only` selects. */
function chosen(machine: Machine, peer: () => Promise<string>): { rows: Row[]; sections: Section[] } {
  const { vllm, only } = values
  const training = trainingSections(machine, () => ligerPython(machine.python, options))
  const serving = servingSections(machine, async () => vllm ?? (await vllmPython(options)))
  const others = otherSections(machine, peer)
  const sections = [...training.sections, ...serving.sections, ...others.sections]
  // vLLM takes the longest to start.
  const ordered = sections.toSorted((a, b) => Number(a.name === 'vllm') - Number(b.name === 'vllm'))
  const unknown = only?.find((name) => !sections.some((section) => section.name === name))
  if (unknown !== undefined)
    lack(`--only must be one of ${[...new Set(sections.map(({ name }) => name))].join(', ')}`)
  const selected = only ? ordered.filter(({ name }) => only.includes(name)) : ordered
  const rows = [...training.rows, ...serving.rows, ...others.rows]
  return { rows: rows.filter(({ section }) => only?.includes(section) ?? true), sections: selected }
}

/** Returns the sections that probe the GPU and create the models, which run first. */
function preparations(machine: Machine, launcher: string, sections: readonly Section[]): Section[] {
  const { driver, gpus: devices } = machine
  const models = [...new Set(sections.map(({ name }) => MODEL_OF[name] ?? 'llm'))]
  const probe: Section = {
    name: 'cuda',
    side: 'ours',
    title: 'cuInit inside the confinement',
    limitS: 60,
    rows: [],
    async run() {
      const found = await probeCuda(driver, launcher, { devices })
      check(
        'cuInit inside the confinement',
        'devices' in found,
        'devices' in found ? `${found.devices} devices` : found.reason,
      )
    },
  }
  const make: Section = {
    name: 'models',
    side: 'ours',
    title: `random weights: ${models.join(', ')}`,
    limitS: 120,
    rows: [],
    async run(signal) {
      const made = await Promise.allSettled(models.map((name) => makeModel(machine, name, signal)))
      for (const one of made) if (one.status === 'rejected') throw one.reason
    },
  }
  return devices.length > 0 ? [probe, make] : [make]
}

function report(rows: readonly Row[], outcomes: readonly Outcome[], seconds: number): void {
  const table = markdownOf(rows)
  const kind = scale.isReal
    ? ''
    : ` This was a ${gpu ? 'GPU' : 'CPU'} run with tiny models, which shows only that the script works: its figures mean nothing.`
  log(
    `\n${where}, scale ${values.scale}, ${seconds.toFixed(0)} s.${kind} A ratio above 1 means that Hearth is faster.\n`,
  )
  log(table)
  const failed = checks.filter(({ isRight }) => !isRight)
  if (checks.length > 0)
    log(
      `\n${checks.length - failed.length} of ${checks.length} checks passed.${failed.map(({ name }) => ` FAILED: ${name}.`).join('')}`,
    )
  const result = {
    machine: where,
    is_gpu: gpu !== undefined,
    scale: values.scale,
    seconds,
    rows: rows.map(recordOf),
    sections: outcomes,
    checks,
  }
  writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
  log(`\nWritten to ${values.json}`)
}

process.exit(await main())
