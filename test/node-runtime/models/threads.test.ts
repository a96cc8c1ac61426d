import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'
import { launch } from '../../../node-runtime/models/launch.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const CORES = availableParallelism()
const HALF = Math.max(1, Math.floor(CORES / 2))
/** Prints its arguments and thread count. */
const PROGRAM = 'console.log(JSON.stringify([process.argv.slice(1), process.env.OMP_NUM_THREADS]))'

describe('threads of a model server', () => {
  const folder = temporaryFolder()
  const driver = new ProcessDriver({ stateDir: folder.path, python: async () => 'python3' })
  after(() => folder[Symbol.dispose]())

  /** Returns the arguments and environment of a profile's program with `threads` threads. */
  async function given(threads: number): Promise<unknown> {
    const [profile] = loadCatalog().profiles
    assert.ok(profile)
    const { process } = await launch(
      { process: driver, container: undefined },
      {
        name: `threads-${threads}`,
        profile: {
          ...profile,
          command: ['{node}', '-e', PROGRAM, '{threads}', '{concurrency}', '{unknown}'],
          env: { OMP_NUM_THREADS: '{threads}' },
          max_concurrency: 7,
          threads,
        },
        python: undefined,
        modelDir: folder.path,
        ramMb: 1,
      },
    )
    return JSON.parse(await text(process.stdout))
  }

  for (const [threads, wanted, why] of [
    [0, HALF, 'default to half the cores'],
    [1, 1, 'follow the profile'],
    [CORES + 5, CORES, 'never exceed the number of cores'],
  ] as const) {
    it(`${why}, on the command line and for OpenMP`, async () => {
      assert.deepEqual(await given(threads), [[String(wanted), '7', '{unknown}'], String(wanted)])
    })
  }

  it('are passed to OpenMP by every profile that runs PyTorch or scikit-learn', () => {
    // The environment `cuda` has libraries only.
    const python = loadCatalog().profiles.filter(
      ({ python_env, image }) => (python_env !== null && python_env !== 'cuda') || image,
    )

    assert.equal(python.length, 8)
    for (const { profile_id, env } of python) assert.equal(env['OMP_NUM_THREADS'], '{threads}', profile_id)
  })
})
