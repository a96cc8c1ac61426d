import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import type { Verdict } from '../../../schemas/cohorts/evaluator.ts'
import { pythonOf } from '../../support/servers/nodes/trainer.ts'

const FOLDER = join(import.meta.dirname, '..', '..', '..', 'node-runtime')
const PLANTED = join(import.meta.dirname, 'planted.py')

type Case = Verdict & { method: string; left_out_r2: number } & Record<string, number & readonly number[]>

describe('the mathematics of evaluations', function () {
  this.timeout(600_000)
  const cases = new Map<string, Case>()
  before(async () => {
    const { stdout } = await promisify(execFile)(await pythonOf('tabular'), [PLANTED], {
      env: pythonProcessEnv({
        PYTHONPATH: `${join(FOLDER, 'evaluator')}:${join(FOLDER, 'trainers')}`,
        OMP_NUM_THREADS: '1',
        OPENBLAS_NUM_THREADS: '1',
      }),
    })
    for (const line of stdout.trim().split('\n')) {
      const { case: name, found } = JSON.parse(line) as { case: string; found: Case }
      cases.set(name, found)
    }
  })
  const found = (name: string): Case => {
    const one = cases.get(name)
    assert.ok(one, name)
    return one
  }
  const near = (value: number | undefined, expected: number, by: number) =>
    assert.ok(value !== undefined && Math.abs(value - expected) <= by, `${value} instead of ${expected}`)

  it('recovers a planted rotation exactly', () => {
    for (const name of ['rotation', 'rotation_auto']) {
      const { estimate, reasons, diagnostics } = found(name)

      near(estimate, 1, 1e-6)
      near(diagnostics.top1, 1, 0)
      assert.deepEqual(reasons, [])
    }
    assert.equal(found('rotation').interval.method, 'wilson')
  })

  for (const [name, cosine, r2] of [
    ['linear', 0.994, 0.99],
    ['noisy', 0.953, 0.915],
    ['noisier', 0.688, 0.49],
  ] as const) {
    it(`fits a ${name} map as well as its noise allows`, () => {
      const { diagnostics, null_model: chance, interval } = found(name)

      near(diagnostics.cosine, cosine, 0.02)
      near(diagnostics.r2, r2, 0.04)
      assert.ok(chance.upper_95 < 0.03, `${chance.upper_95}`)
      assert.ok(interval.low < (diagnostics.cosine ?? 0) && interval.high > (diagnostics.cosine ?? 0))
    })
  }

  it('accepts only maps above the threshold', () => {
    assert.deepEqual(found('linear').reasons, [])
    assert.deepEqual(found('noisier').reasons, ['below_threshold'])
    near(found('noisy_r2').estimate, 0.915, 0.04)
  })

  it('rejects unrelated spaces, however similar their vectors look', () => {
    for (const name of ['unrelated', 'unrelated_retrieval']) {
      const { reasons, diagnostics } = found(name)

      assert.deepEqual(reasons, ['below_threshold', 'p_value', 'not_above_null'])
      near(diagnostics.cosine, 0, 0.03)
      near(diagnostics.cka_debiased, 0, 0.02)
      assert.ok((diagnostics.cosine_raw ?? 0) > 0.9)
    }
  })

  it("judges by a consumer's answers, and rejects a consumer that always gives the same answer", () => {
    const { estimate, null_model: chance, reasons } = found('consumer')
    const constant = found('consumer_of_one_answer')

    near(estimate, 0.99, 1e-9)
    assert.ok(chance.upper_95 < 0.35)
    assert.deepEqual(reasons, [])
    assert.equal(constant.estimate, 1)
    assert.deepEqual(constant.reasons, ['p_value', 'not_above_null'])
  })

  it('computes the leave-one-out error without refitting for each row', () => {
    near(found('left_out').worst, 0, 1e-6)
  })

  it('rotates into more dimensions without loss', () => {
    near(found('padded').off, 0, 1e-8)
    near(found('padded').orthogonal, 0, 1e-8)
  })

  it('produces intervals with the intended coverage', () => {
    const { coverage, wilson_all: all, wilson_half: half } = found('intervals')

    assert.ok(Number(coverage) >= 0.88 && Number(coverage) <= 0.985, `${coverage}`)
    near(all?.[0], 0.99617, 1e-4)
    near(half?.[0], 0.40383, 1e-4)
  })
})
