import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'

const TRAINERS = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'trainers')

/** Runs a job that ends with a CUDA error, on a GPU that has failed or that works at the next call. */
const RUN = `
import sys
from types import SimpleNamespace
from hearth_trainers import __main__ as program
_, job, raised, later = sys.argv
def synchronize(device):
    if later: raise RuntimeError(later)
def train(*_):
    sys.modules["torch"] = SimpleNamespace(cuda=SimpleNamespace(synchronize=synchronize))
    raise RuntimeError(raised)
program._train = train
sys.exit(program.main([job]))`

describe('a trainer whose GPU fails', function () {
  this.timeout(60_000)

  async function codeOf(gpus: number, raised: string, later = ''): Promise<[number, string]> {
    using folder = temporaryFolder()
    const job = join(folder.path, 'job.json')
    const [output_dir, checkpoint_dir] = ['output', 'checkpoints'].map((name) => join(folder.path, name))
    const dataset = { format: 'csv', paths: [] }
    const body = {
      trainer: 'hearth_trainers.none',
      dataset,
      hyperparameters: {},
      output_dir,
      checkpoint_dir,
      gpus,
    }
    await writeFile(job, JSON.stringify(body))
    const env = { ...process.env, PYTHONPATH: TRAINERS }
    const run = promisify(execFile)(realPython(), ['-c', RUN, job, raised, later], { env })
    const { code, stdout } = await run.then(
      () => assert.fail('the run succeeded'),
      (err: { code: number; stdout: string }) => err,
    )
    const error = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { code: string }
    return [code, error.code]
  }

  it('reports a node fault only if CUDA fails at every call', async () => {
    const sticky = 'CUDA error: unspecified launch failure'
    const asserted = 'CUDA error: device-side assert triggered'
    assert.deepEqual(await codeOf(1, sticky, sticky), [1, 'no_cuda'])
    assert.deepEqual(await codeOf(2, 'NCCL error: unhandled cuda error', sticky), [1, 'no_cuda'])

    assert.deepEqual(await codeOf(1, 'CUDA out of memory. Tried to allocate'), [1, 'trainer_failed'])
    assert.deepEqual(await codeOf(1, 'x', 'CUDA error: out of memory'), [1, 'trainer_failed'])
    assert.deepEqual(await codeOf(1, asserted, asserted), [1, 'trainer_failed'])
    assert.deepEqual(await codeOf(0, sticky, sticky), [1, 'trainer_failed'])
  })
})
