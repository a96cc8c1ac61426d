import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ensurePythonEnv, pythonProcessEnv } from '../../node-runtime/environments/python-env.ts'
import { readConfig } from '../../platform/config.ts'
import { TEST_LOCKS } from '../../scripts/test-tools.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { requireInstalled } from '../support/skip.ts'

const execute = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const DOCUMENT = join(ROOT, 'docs', 'openapi', 'hearth.json')
const OVERRIDES = join(ROOT, 'docs', 'openapi', 'python-client.yml')
const CALLER = join(ROOT, 'test', 'support', 'servers', 'clients', 'generated_client.py')

describe('a Python client generated from the OpenAPI document', () => {
  let api: TestApi
  let folder: string
  let env: NodeJS.ProcessEnv
  let python: string
  before(async function () {
    this.timeout(600_000)
    const install = async () => {
      const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {}, locksDir: TEST_LOCKS }
      ;({ python } = await ensurePythonEnv('generator', options))
    }
    await requireInstalled(this, process.env.HEARTH_TEST_GENERATOR_MISSING, install)
    folder = await mkdtemp(join(tmpdir(), 'hearth-python-'))
    // The generator runs a formatter from its environment, and the client must reach the gateway without a proxy.
    env = pythonProcessEnv({
      PATH: `${dirname(python)}${delimiter}${process.env.PATH}`,
      NO_PROXY: '127.0.0.1',
      no_proxy: '127.0.0.1',
    })
    api = await startApi()
  })
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    if (folder) await rm(folder, { recursive: true, force: true })
  })

  it('has every operation and parses every response', async function () {
    this.timeout(120_000)
    const target = join(folder, 'hearth_client')
    const { stdout, stderr } = await execute(
      python,
      [
        '-m',
        'openapi_python_client',
        'generate',
        '--path',
        DOCUMENT,
        '--config',
        OVERRIDES,
        '--output-path',
        target,
        '--meta',
        'none',
      ],
      { env },
    )
    assert.doesNotMatch(stdout + stderr, /warning|unable|cannot/i)

    const { key, accountId } = await api.account()
    const dataset_id = await readyDataset(api, accountId)
    const jobId = await createRun(api, key, {
      dataset_id,
      hyperparameters: { target_column: 'target' },
    })
    const called = await execute(python, [CALLER, folder, api.baseUrl, key, jobId], { env })
    const { run, ...others } = JSON.parse(called.stdout) as { run: unknown[] }

    assert.deepEqual(run.slice(0, 3), [jobId, 'prices', 'pending'])
    assert.equal((run[3] as { target_column: string }).target_column, 'target')
    assert.deepEqual(others, {
      listed: [jobId],
      refused: 'HTTPValidationError',
      unknown: 'not_found',
    })
  })
})
