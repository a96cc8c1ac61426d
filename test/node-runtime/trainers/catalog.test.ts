import assert from 'node:assert/strict'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCatalog } from '../../../platform/catalog.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const CATALOG = join(import.meta.dirname, '..', '..', '..', 'catalog')
/** The profiles of those that are not served as tables are. */
const PROFILES = new Map([
  ['llm-qlora-finetune', 'llm-transformers'],
  ['embedding-finetune', 'specialist-onnx'],
  ['text-classification-finetune', 'specialist-onnx'],
])

describe('the catalog', () => {
  it('holds the seven trainable configs, each with the runtime profile of its models', () => {
    const catalog = loadCatalog()

    const ids = catalog.models.map(({ config }) => config.model_id)

    assert.deepEqual(ids, [
      'embedding-finetune',
      'llm-qlora-finetune',
      'tabular-classification',
      'tabular-regression',
      'text-classification-finetune',
      'text-classification',
      'time-series-forecast',
    ])
    for (const model of catalog.models) {
      const profile = PROFILES.get(model.config.model_id) ?? 'tabular'
      assert.equal(model.profile.profile_id, profile)
      assert.deepEqual(model.resolveHyperparameters({}).issues, [])
      assert.ok(model.detail.user_configurable_params.every(({ description }) => description.endsWith('.')))
    }
  })

  it('fills in defaults, takes aliases, warns of unknown keys and names what is out of range', () => {
    const model = loadCatalog().model('tabular-regression')
    assert.ok(model)

    const resolved = model.resolveHyperparameters({
      num_epochs: 7,
      eta: 2,
      colour: 'red',
      ignore_columns: ['id', 3],
    })

    assert.equal(resolved.values['epochs'], 7)
    assert.equal(resolved.values['num_leaves'], 31)
    assert.match(resolved.warnings.join(), /colour is not known/)
    assert.deepEqual(resolved.issues.map(({ path }) => path).toSorted(), ['/eta', '/ignore_columns/1'])
  })

  it('lets the proper name win over its alias', () => {
    const model = loadCatalog().model('tabular-regression')

    const resolved = model?.resolveHyperparameters({ epochs: 3, n_estimators: 500 })

    assert.equal(resolved?.values['epochs'], 3)
    assert.match(resolved.warnings.join(), /n_estimators is ignored/)
  })

  it('reckons more memory for a larger dataset', () => {
    const model = loadCatalog().model('tabular-regression')

    assert.ok(model)
    assert.ok(model.estimateMemoryMb(100 * 2 ** 20) > model.estimateMemoryMb(0))
  })

  const faults: [string, (config: Record<string, unknown>) => void, RegExp][] = [
    ['a wrong value', (config) => (config['requires_gpu'] = 'no'), /\/requires_gpu must be boolean/],
    ['an unknown field', (config) => (config['colour'] = 'red'), /additional properties \(colour\)/],
    ['an unknown profile', (config) => (config['runtime_profile'] = 'x'), /\/runtime_profile names no/],
    ['a stray alias', (config) => (config['aliases'] = { a: 'b' }), /\/aliases\/a names no hyperparameter/],
    ['another name', (config) => (config['model_id'] = 'other'), /\/model_id differs from the name/],
  ]
  for (const [fault, change, expected] of faults) {
    it(`refuses a file with ${fault}, naming the file and the place`, async () => {
      using folder = temporaryFolder()
      await cp(CATALOG, folder.path, { recursive: true })
      const file = join(folder.path, 'model-configs', 'tabular-regression.json')
      const config = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
      change(config)
      await writeFile(file, JSON.stringify(config))

      assert.throws(() => loadCatalog(folder.path), expected)
      assert.throws(() => loadCatalog(folder.path), /tabular-regression\.json/)
    })
  }

  it('refuses a file that is not JSON', async () => {
    using folder = temporaryFolder()
    await cp(CATALOG, folder.path, { recursive: true })
    await writeFile(join(folder.path, 'runtime-profiles', 'tabular.json'), '{')

    assert.throws(() => loadCatalog(folder.path), /tabular\.json cannot be used: \/ is not JSON/)
  })
})
