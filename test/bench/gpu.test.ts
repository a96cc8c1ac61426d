import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runSections, type Section } from '../../bench/gpu/sections.ts'
import { markdownOf, type Row } from '../../bench/gpu/table.ts'
import { requireLlm } from '../support/builders/models/tiny-llm.ts'

const BENCH = join(import.meta.dirname, '..', '..', 'bench', 'gpu.ts')

const rowOf = (what: string): Row => ({
  section: 'test',
  what,
  unit: 'ms',
  referenceName: 'a library',
  notes: [],
})

function sectionOf(row: Row, run: Section['run'], limitS = 60): Section {
  return { name: row.section, side: 'ours', title: row.what, limitS, rows: [row], run }
}

describe('bench:gpu', () => {
  const dir = mkdtempSync(join(tmpdir(), 'hearth-test-bench-gpu-'))
  after(() => rmSync(dir, { recursive: true }))

  describe('on a machine without a GPU', () => {
    before(requireLlm)

    it('trains with Hearth and with the libraries, and prints and stores both figures', function () {
      this.timeout(300_000)
      const json = join(dir, 'figures.json')
      const args = [BENCH, '--scale', 'tiny', '--only', 'lora', '--json', json]
      const { status, stdout, stderr } = spawnSync(process.execPath, args, {
        encoding: 'utf8',
        timeout: 280_000,
      })

      assert.equal(status, 0, stdout + stderr)
      assert.match(stdout, /This was a CPU run with tiny models/)
      assert.match(
        stdout,
        /^\| train: LoRA, 1 × 128 tokens \| [\d,.]+ tokens\/s \| [\d,.]+ tokens\/s \(Trainer and PEFT\) \|/m,
      )
      const { is_gpu, rows } = JSON.parse(readFileSync(json, 'utf8')) as {
        is_gpu: boolean
        rows: {
          section: string
          ours: number
          reference: number
          ratio: number
          ours_peak_mb: number
          reference_peak_mb: number
          notes: string[]
        }[]
      }
      const [row] = rows
      assert.equal(is_gpu, false)
      assert.equal(rows.length, 1)
      assert.equal(row?.section, 'lora')
      assert.deepEqual(row.notes, [], 'both sides train on the same number of tokens')
      assert.ok(row.ours_peak_mb > 100 && row.reference_peak_mb > 100)
      assert.equal(row.ratio.toFixed(6), (row.ours / row.reference).toFixed(6))
    })
  })

  it('prints its options with --help, and rejects an interpreter that it cannot use', () => {
    for (const [options, status, words] of [
      [['--help'], 0, /^Usage: .*--only NAME/s],
      [['--scale', 'tiny', '--python', '/no/python'], 2, /\/no\/python \(--python\) cannot import torch\. /],
    ] as const) {
      const ended = spawnSync(process.execPath, [BENCH, ...options], { encoding: 'utf8' })
      assert.equal(ended.status, status, ended.stderr)
      assert.match(ended.stdout + ended.stderr, words)
      assert.doesNotMatch(ended.stderr, /^ +at /m)
    }
  })

  it('reports a section that overruns, kills its processes, and runs the next one', async () => {
    const [slow, next] = [rowOf('slow'), rowOf('next')]
    let kills = 0
    const sections = [
      sectionOf(
        slow,
        (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
        0.05,
      ),
      sectionOf(next, async () => {
        next.ours = { value: 2 }
      }),
    ]
    const began = performance.now()
    const outcomes = await runSections(sections, {
      patience: 1,
      endsAt: began + 60_000,
      killAll: async () => void kills++,
      log: () => {},
    })

    assert.deepEqual(
      outcomes.map(({ state }) => state),
      ['failed', 'measured'],
    )
    assert.equal(kills, 1)
    assert.match(markdownOf([slow]), /Hearth: not finished after 0\.1 s/)
    assert.match(markdownOf([next]), /^\| next \| 2 ms \|/m)
  })

  it('runs nothing once the whole budget is spent', async () => {
    const row = rowOf('late')
    const run = () => assert.fail('the section ran')
    const options = { patience: 1, endsAt: performance.now() - 1, killAll: async () => {}, log: () => {} }
    const [outcome] = await runSections([sectionOf(row, run)], options)

    assert.equal(outcome?.state, 'failed')
    assert.deepEqual(row.notes, ['Hearth: no time was left'])
  })
})
