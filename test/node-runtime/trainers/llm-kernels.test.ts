import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { pythonOf } from '../../support/servers/nodes/trainer.ts'
import { requireInstalled, skipBecause } from '../../support/skip.ts'

interface Kernels {
  fault: string | null
  kernels: [before: boolean, after: boolean]
  fused: [before: boolean, after: boolean]
  loss: number
  gradients: number
}

interface Choice {
  uses: boolean
  log: [level: string, message: string][]
}

/** Granite scales its logits, so its loss is not fused; Liger has no kernels for layers of GPT-2. */
const FAMILIES = [
  { family: 'llama', kernels: true, fused: true },
  { family: 'gemma2', kernels: true, fused: true },
  { family: 'granite', kernels: true, fused: false },
  { family: 'gpt2', kernels: false, fused: true },
]
const ROUNDING = 1e-5

describe("Liger's kernels in Triton's interpreter", function () {
  this.timeout(600_000)
  let broken: Kernels
  let seen: Kernels[]

  before(requireLlm)
  before(async function () {
    // The environment has 1 GB, and the interpreter takes minutes.
    if (!process.env.HEARTH_TEST_KERNELS) skipBecause(this, 'set HEARTH_TEST_KERNELS=1 to run it')
    await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, () => pythonOf('kernels'))
    const libraries = join(dirname(dirname(await pythonOf('kernels'))), 'lib')
    const [version = ''] = await readdir(libraries)
    const requests = [
      { family: 'llama', broken: true },
      ...FAMILIES.map((one) => ({ ...one, broken: false })),
    ]
    const packages = join(libraries, version, 'site-packages')
    ;[broken, ...seen] = await probeLlm<[Kernels, ...Kernels[]]>(
      requests.map((one) => ({ ask: 'kernels', ...one })),
      { packages, TRITON_INTERPRET: '1' },
    )
  })

  for (const [index, { family, kernels, fused }] of FAMILIES.entries()) {
    it(`compute the same loss and gradients as PyTorch: ${family}`, () => {
      const found = seen[index]!

      assert.equal(found.fault, null)
      assert.deepEqual(
        [found.kernels, found.fused],
        [
          [false, kernels],
          [false, fused],
        ],
      )
      assert.ok(found.loss < ROUNDING && found.gradients < ROUNDING, `${found.loss} ${found.gradients}`)
    })
  }

  it('leave a model that is loaded again without them if they fail', () => {
    assert.match(broken.fault ?? '', /^InterpreterError: /)
    assert.deepEqual(
      [broken.kernels, broken.fused],
      [
        [false, false],
        [false, false],
      ],
    )
    assert.deepEqual([broken.loss, broken.gradients], [0, 0])
  })
})

describe("the choice of Liger's kernels", function () {
  this.timeout(600_000)
  const cases = [
    { liger: null, available: true, fault: null, uses: true, log: [['info', /^Training uses Liger's/]] },
    { liger: null, available: false, fault: null, uses: false, log: [] },
    { liger: null, available: true, fault: 'no', uses: false, log: [['warning', /cannot train .* \(no\)/]] },
    { liger: true, available: true, fault: null, uses: true, log: [['info', /^Training uses Liger's/]] },
    { liger: false, available: true, fault: null, uses: false, log: [['info', /continues without them/]] },
    { liger: true, available: false, fault: null, uses: false, log: [['warning', /will differ slightly/]] },
    {
      liger: true,
      available: true,
      fault: 'no',
      uses: false,
      log: [
        ['warning', /cannot train .* \(no\)/],
        ['warning', /will differ slightly/],
      ],
    },
  ] as const
  let seen: Choice[]

  before(requireLlm)
  before(async () => {
    seen = await probeLlm<Choice[]>(
      cases.map(({ liger, available, fault }) => ({ ask: 'choice', liger, available, fault })),
    )
  })

  for (const [index, { liger, available, fault, uses, log }] of cases.entries()) {
    const checkpoint = liger === null ? 'no checkpoint' : `a checkpoint ${liger ? 'with' : 'without'} them`
    const kernels = available ? (fault === null ? 'working' : 'failing') : 'no'
    it(`${uses ? 'uses them' : 'trains without them'} on a node with ${kernels} kernels and ${checkpoint}`, () => {
      const found = seen[index]!

      assert.equal(found.uses, uses)
      assert.equal(found.log.length, log.length)
      for (const [at, [level, message]] of log.entries()) {
        assert.equal(found.log[at]?.[0], level)
        assert.match(found.log[at][1], message)
      }
    })
  }
})
