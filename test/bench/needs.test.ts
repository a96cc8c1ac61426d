import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
}

/** Runs a bench on a machine without any program but Node.js. */
function runAlone(file: string): { status: number | null; stderr: string } {
  const env = { ...process.env, PATH: '/nonexistent' }
  return spawnSync(process.execPath, [join(ROOT, file)], { env, encoding: 'utf8', timeout: 60_000 })
}

describe('benches', function () {
  this.timeout(120_000)

  for (const [name, command] of Object.entries(scripts).filter(([script]) => script.startsWith('bench:')))
    it(`${name} names files that exist`, () => {
      const [, file = ''] = command.split(' ')
      const text = readFileSync(join(ROOT, file), 'utf8')
      const named = [...text.matchAll(/join\(ROOT, ((?:'[^']+'(?:, )?)+)\)/g)].map(([, parts = '']) =>
        join(ROOT, ...parts.split(', ').map((part) => part.slice(1, -1))),
      )

      assert.deepEqual(
        named.filter((path) => !existsSync(path)),
        [],
      )
    })

  const benchAll = (...args: string[]) => {
    const command = [join(ROOT, 'scripts', 'bench-all.ts'), ...args]
    return spawnSync(process.execPath, command, { encoding: 'utf8', timeout: 1_200_000 })
  }

  it('can load all of their imports', () => {
    const { status, stdout, stderr } = benchAll('--imports')

    assert.equal(status, 0, stderr)
    const loaded = [...stdout.matchAll(/^(bench:[\w-]+) +loads /gm)].map(([, name]) => name)
    const expected = Object.keys(scripts).filter((name) => /^bench:(?!all$)/.test(name))
    assert.deepEqual(new Set(loaded), new Set(expected))
  })

  // The other benches take minutes; `npm run bench:all -- --once` runs all of them.
  it('print their figures after one short round', function () {
    this.timeout(1_200_000)
    const { status, stdout, stderr } = benchAll('--once', 'placement')

    assert.equal(status, 0, stdout + stderr)
    assert.match(stdout, /decisions per second: [\d,]+/)
  })

  for (const [file, program] of [
    ['bench/gateway.ts', 'wrk'],
    ['bench/warm.ts', 'nginx'],
    ['bench/aborts.ts', 'go'],
  ] as const)
    it(`${file} explains how to get ${program} before it starts anything`, () => {
      const { status, stderr } = runAlone(file)

      assert.equal(status, 2, stderr)
      assert.match(stderr, new RegExp(`This bench needs ${program}\\. Get it from `))
    })

  it('bench/gpu.ts reports that the machine has no GPU', () => {
    const { status, stderr } = runAlone('bench/gpu.ts')

    assert.equal(status, 2)
    assert.match(stderr, /^nvidia-smi lists no NVIDIA GPU on this machine\. .* Nothing was measured\.$/m)
  })
})
