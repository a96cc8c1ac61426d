import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mergeModels, type MergeSpec } from '../../../node-runtime/merge/merge-models.ts'
import { fromBf16, readCheckpoint, writeCheckpoint } from '../../support/builders/models/checkpoints.ts'
import { oracleModel } from '../../support/builders/models/oracle-models.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

type Expected = Record<'slerp' | 'ties' | 'dare', Record<string, string>>

const FIXTURE = new URL('../../fixtures/merges/mergekit.json', import.meta.url)

describe('merges compared with mergekit', () => {
  const expected = JSON.parse(readFileSync(FIXTURE, 'utf8')) as Expected

  const cases: {
    method: keyof Expected
    spec: (use: (seed: number) => MergeSpec['sources'][number]) => MergeSpec
  }[] = [
    { method: 'slerp', spec: (use) => ({ method: 'slerp', sources: [use(1), use(2)] }) },
    {
      method: 'ties',
      spec: (use) => ({ method: 'ties', base: use(0), sources: [use(1), use(2)], density: 0.5 }),
    },
    {
      method: 'dare',
      spec: (use) => ({ method: 'dare', base: use(0), sources: [use(1), use(2)], density: 1, seed: 0 }),
    },
  ]
  for (const { method, spec } of cases) {
    it(`agree for ${method}, up to bf16 rounding`, async () => {
      using folder = temporaryFolder()
      for (const seed of [0, 1, 2]) writeCheckpoint(join(folder.path, `m${seed}`), oracleModel(seed))
      const use = (seed: number) => ({ dir: join(folder.path, `m${seed}`), label: `m${seed}`, weight: 1 })
      const outDir = join(folder.path, 'out')

      await mergeModels(spec(use), { outDir, threads: 2 })

      const found = await readCheckpoint(outDir)
      let [equal, all] = [0, 0]
      assert.deepEqual([...found.keys()].toSorted(), Object.keys(expected[method]).toSorted())
      for (const [name, text] of Object.entries(expected[method])) {
        const bits = new Uint16Array(new Uint8Array(Buffer.from(text, 'base64')).buffer)
        const ours = found.get(name) ?? new Float32Array()
        assert.equal(ours.length, bits.length)
        Float32Array.from(bits, fromBf16).forEach((theirs, i) => {
          const value = ours[i] ?? Number.NaN
          // mergekit rounds intermediate differences and sums of up to 4; here only the final result is rounded.
          const step = 2 ** -7 * Math.max(Math.abs(theirs), Math.abs(value), 2)
          equal += Number(value === theirs)
          all += 1
          assert.ok(Math.abs(value - theirs) <= step, `${name}[${i}]: ${value} and ${theirs}`)
        })
      }
      assert.ok(equal / all > 0.8, `${equal} of ${all} numbers are equal`)
    })
  }
})
