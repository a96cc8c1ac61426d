// Compares merging two 475-million-parameter models with a plain copy of the same bytes. Each merge runs right after
// its copy: npm run bench:merge [-- --pairs 5 --threads 2 --mergekit PYTHON]
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { makeInputs } from './merge/inputs.ts'

const METHODS = ['slerp', 'ties', 'dare', 'adapter_merge'] as const
type Method = (typeof METHODS)[number]

/** The target times, as multiples of how long a copy with fsync takes. */
const GOALS: Record<Method, number> = { slerp: 1, ties: 2, dare: 1.5, adapter_merge: 1.5 }
const MEMORY_GOAL_MB = 160
const DISK_BYTES = 7e9

/** One child process's figures. */
interface Figure {
  wall_s: number
  cpu_s: number
  peak_mb: number
}

const { values } = parseArgs({
  options: {
    pairs: { type: 'string', default: '5' },
    threads: { type: 'string', default: '2' },
    only: { type: 'string', multiple: true, default: [...METHODS] },
    mergekit: { type: 'string' },
  },
})

const dir = mkdtempSync(join(tmpdir(), 'hearth-bench-merge-'))
try {
  await main()
} finally {
  rmSync(dir, { recursive: true, force: true })
}

async function main(): Promise<void> {
  const { bavail, bsize } = statfsSync(dir)
  if (bavail * bsize < DISK_BYTES) throw new Error(`${dir} needs ${DISK_BYTES / 1e9} GB of free disk space`)
  const parameters = makeInputs(dir)
  console.log(
    `${parameters / 1e6} million parameters, bf16, ${values.threads} threads, ${values.pairs} pairs`,
  )
  for (const method of METHODS.filter((one) => values.only.includes(one))) report(method)
}

function report(method: Method): void {
  const pairs = Array.from({ length: Number(values.pairs) }, () => {
    const copy = measure('copy')
    return { copy, merge: measure(method, values.threads) }
  })
  const ratios = pairs.map(({ copy, merge }) => merge.wall_s / copy.wall_s)
  const middle = (of: (pair: (typeof pairs)[number]) => number) => median(pairs.map(of))
  const ratio = median(ratios)
  const peak = Math.max(...pairs.map(({ merge }) => merge.peak_mb))
  console.log(
    `${method.padEnd(14)} ${middle(({ merge }) => merge.wall_s).toFixed(2)} s wall, ` +
      `${middle(({ merge }) => merge.cpu_s).toFixed(2)} s CPU, ${peak} MB; ` +
      `copy with fsync ${middle(({ copy }) => copy.wall_s).toFixed(2)} s; ` +
      `ratio ${ratio.toFixed(2)} (${ratios.map((one) => one.toFixed(2)).join(' ')}), goal ${GOALS[method]}` +
      ` ${ratio <= GOALS[method] && peak < MEMORY_GOAL_MB ? 'met' : 'MISSED'}`,
  )
  if (values.mergekit && method !== 'adapter_merge')
    compareMergekit(
      method,
      middle(({ merge }) => merge.wall_s),
    )
}

/** Runs `merge/one.ts` in a separate process. */
function measure(what: Method | 'copy', threads = '1'): Figure {
  rmSync(join(dir, 'out'), { recursive: true, force: true })
  // Pending writes from earlier steps must not count toward this one.
  spawnSync('sync')
  const script = join(import.meta.dirname, 'merge', 'one.ts')
  const output = execFileSync(process.execPath, [script, what, dir, threads], { encoding: 'utf8' })
  return JSON.parse(output) as Figure
}

function compareMergekit(method: Method, ours: number): void {
  rmSync(join(dir, 'out'), { recursive: true, force: true })
  const script = join(import.meta.dirname, 'merge', 'mergekit_one.py')
  const output = execFileSync(String(values.mergekit), [script, method, dir], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const { wall_s, peak_mb } = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '') as Figure
  console.log(
    `${' '.repeat(14)} mergekit ${wall_s.toFixed(1)} s wall, ${peak_mb} MB: ${(wall_s / ours).toFixed(1)} times as long`,
  )
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
