import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { findGpuKernels, type KernelsOptions } from '../../../node-runtime/training/gpu-kernels.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('GPU kernels of a trainer', () => {
  const folder = temporaryFolder()
  after(() => folder[Symbol.dispose]())

  /** Creates the folders of an environment, and returns its interpreter. */
  const environment = (name: string, version: string): string => {
    mkdirSync(join(folder.path, name, 'lib', version, 'site-packages'), { recursive: true })
    return join(folder.path, name, 'bin', 'python')
  }
  const find = async (change: Partial<KernelsOptions> = {}) => {
    const lines: string[] = []
    const installed: string[] = []
    const packages = await findGpuKernels({
      trainer: 'hearth_trainers.llm.finetune',
      python: environment('llm', 'python3.12'),
      gpus: 1,
      canCompile: () => true,
      tell: (line) => void lines.push(line),
      ...change,
      pythonOf: async (name) => {
        installed.push(name)
        return change.pythonOf?.(name) ?? environment('kernels', 'python3.12')
      },
    })
    return { packages, lines, installed }
  }

  it('are the packages of their environment if the run has a GPU', async () => {
    const { packages, lines, installed } = await find()

    assert.equal(packages, join(folder.path, 'kernels', 'lib', 'python3.12', 'site-packages'))
    assert.deepEqual([lines, installed], [[], ['kernels']])
  })

  it('are not installed for runs without a GPU, and for trainers that do not use them', async () => {
    for (const change of [{ gpus: 0 }, { trainer: 'hearth_trainers.encoders.embedding' }])
      assert.deepEqual(await find(change), { packages: undefined, lines: [], installed: [] })
  })

  it('are left out, with the reason in the log, if the node has no compiler', async () => {
    const { packages, lines, installed } = await find({ canCompile: () => false })

    assert.deepEqual([packages, installed], [undefined, []])
    assert.deepEqual(lines, ['Training uses no GPU kernels: this node has no C compiler.'])
  })

  it('are left out if they cannot be installed', async () => {
    const { packages, lines } = await find({
      pythonOf: () =>
        Promise.reject(new Error('/srv/cache/pip failed (1):\nlooking\nno file /srv/cache/liger.whl\n')),
    })

    assert.equal(packages, undefined)
    assert.deepEqual(lines, ['Training uses no GPU kernels: they cannot be installed (no file …/liger.whl).'])
  })

  it('are left out if they were installed for another Python than that of the trainer', async () => {
    const python = environment('other', 'python3.13')

    const { packages, lines } = await find({ pythonOf: () => Promise.resolve(python) })

    assert.equal(packages, undefined)
    assert.match(lines.join(), /installed for python3\.13, and the trainer runs on python3\.12/)
  })
})
