import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readDataset } from '../platform/datasets/reader.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Reads a 500 MB jsonl file as an ingest does (every row parsed, checked and counted, columns typed), compared with
// DuckDB's plain count of the same file. Each side is a separate process, whose startup time is included.

const BYTES = unlessOnce(500_000_000, 20_000_000)
const ROUNDS = unlessOnce(7)
const MAX_TIMES = 2
const MAX_BYTES = 300_000_000
const WORDS = 'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu'.split(' ')

const row = (i: number) =>
  JSON.stringify({
    id: i,
    x: Math.sin(i) * 1000,
    label: WORDS[i % 12],
    flag: i % 3 === 0,
    tags: [WORDS[i % 5], WORDS[i % 7]],
    text: Array.from({ length: 60 }, (_, k) => WORDS[(i * 7 + k * k) % 12]).join(' '),
  })

function* lines(): Iterable<string> {
  for (let i = 0, bytes = 0; bytes < BYTES;) {
    let page = ''
    for (let k = 0; k < 1000; k++) page += `${row(i++)}\n`
    bytes += page.length
    yield page
  }
}

/** DuckDB with its default threads and memory. */
const PLAIN_COUNT = `
  const { DuckDBInstance } = await import('@duckdb/node-api')
  const db = await (await DuckDBInstance.create(':memory:')).connect()
  const answer = await db.runAndReadAll("select count(*) from read_json_auto('" + process.argv[1] + "')")
  console.log(Number(answer.getRows()[0][0]), process.resourceUsage().maxRSS * 1024)`

interface IngestMeasurement {
  rows: number
  seconds: number
  peakBytes: number
}

async function timed(read: () => Promise<{ rows: number; peakBytes: number }>): Promise<IngestMeasurement> {
  const started = performance.now()
  const found = await read()
  return { ...found, seconds: (performance.now() - started) / 1000 }
}

async function plainCount(path: string): Promise<{ rows: number; peakBytes: number }> {
  const args = ['--input-type=module', '-e', PLAIN_COUNT, path]
  const { stdout } = await runProgram(process.execPath, args)
  const [rows = 0, peakBytes = 0] = stdout.trim().split(' ').map(Number)
  return { rows, peakBytes }
}

async function ingest(path: string): Promise<{ rows: number; peakBytes: number }> {
  const { num_samples: rows, peakBytes } = await readDataset({ path, format: 'jsonl' })
  return { rows, peakBytes }
}

function summary(runs: readonly IngestMeasurement[]): IngestMeasurement {
  const [first] = runs
  if (!first) throw new Error('nothing was measured')
  const seconds = runs.map((run) => run.seconds).toSorted((a, b) => a - b)
  return {
    rows: first.rows,
    seconds: seconds[Math.floor(seconds.length / 2)] ?? 0,
    peakBytes: Math.max(...runs.map((run) => run.peakBytes)),
  }
}

const show = (name: string, { rows, seconds, peakBytes }: IngestMeasurement) =>
  console.log(
    `${name.padEnd(24)} ${Math.round(rows / seconds)
      .toLocaleString('en')
      .padStart(12)} rows/s  ` + `${seconds.toFixed(3)} s  peak ${Math.round(peakBytes / 1e6)} MB`,
  )

const folder = await mkdtemp(join(tmpdir(), 'hearth-bench-'))
try {
  const path = join(folder, 'data.jsonl')
  await pipeline(Readable.from(lines()), createWriteStream(path))
  const sides: { plain: IngestMeasurement[]; ours: IngestMeasurement[] } = { plain: [], ours: [] }
  for (let round = 0; round < ROUNDS; round++) {
    sides.plain.push(await timed(() => plainCount(path)))
    sides.ours.push(await timed(() => ingest(path)))
  }
  const [plain, ours] = [summary(sides.plain), summary(sides.ours)]
  if (plain.rows !== ours.rows) throw new Error(`counted ${ours.rows} rows, DuckDB ${plain.rows}`)

  const { size } = await stat(path)
  console.log(`${(size / 1e6).toFixed(0)} MB, ${ours.rows.toLocaleString('en')} rows, median of ${ROUNDS}`)
  show('DuckDB, plain count', plain)
  show('ingest', ours)
  const times = ours.seconds / plain.seconds
  const isGood = times <= MAX_TIMES && ours.peakBytes < MAX_BYTES
  console.log(
    `ratio ${times.toFixed(2)} (goal: at most ${MAX_TIMES}), peak memory ${Math.round(ours.peakBytes / 1e6)} MB ` +
      `(goal: under ${MAX_BYTES / 1e6} MB): ${isGood ? 'met' : 'missed'}`,
  )
  endWith(isGood)
} finally {
  await rm(folder, { recursive: true, force: true })
}
