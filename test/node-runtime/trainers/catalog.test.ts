import assert from 'node:assert/strict'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCatalog } from '../../../platform/catalog.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const CATALOG = join(import.meta.dirname, '..', '..', '..', 'catalog')
/** The runtime profiles of the models that do not use the `tabular` profile. */
const PROFILES = new Map([
  ['llm-qlora-finetune', 'llm-transformers'],
  ['embedding-finetune', 'specialist-onnx'],
  ['text-classification-finetune', 'specialist-onnx'],
])

/** The defaults that the contract's table spells out. */
const TABLE = {
  adapter: 'qlora',
  epochs: 3,
  max_steps: 0,
  learning_rate: 0.0002,
  sequence_len: 8192,
  micro_batch_size: 1,
  gradient_accumulation_steps: 4,
  lora_r: 16,
  lora_alpha: 32,
  lora_dropout: 0.05,
  val_set_size: 0,
  save_steps: 'auto',
  seed: 1234,
  optimizer: 'adamw_torch',
  lr_scheduler: 'cosine',
  warmup_ratio: 0.03,
  max_grad_norm: 1,
  flash_attention: 'auto',
  gradient_checkpointing: true,
  group_by_length: true,
  sample_packing: false,
  pad_to_sequence_len: false,
  tokenizer_cache: true,
  dataset_type: 'alpaca',
  text_column: 'text',
}

describe('the model catalog', () => {
  it('contains the seven trainable configs, each with the runtime profile of its models', () => {
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

  it('fills in defaults, resolves aliases, warns about unknown keys and names values out of range', () => {
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

  it("accepts every default and every value that the contract's fine-tuning table (section 4.3) names", () => {
    const model = loadCatalog().model('llm-qlora-finetune')
    assert.ok(model)
    const {
      base_model: _,
      chat_template: __,
      packing: ___,
      ...defaults
    } = model.resolveHyperparameters({}).values

    assert.deepEqual({ ...defaults, save_steps: 'auto' }, TABLE)
    const values: [string, unknown[]][] = [
      ...Object.entries(TABLE).map(([name, value]): [string, unknown[]] => [name, [value]]),
      ['adapter', ['qlora', 'lora', 'none']],
      ['num_epochs', [3]],
      ['checkpoint_every_steps', ['auto', 200]],
      ['optimizer', ['adamw_torch', 'adamw_8bit', 'paged_adamw_8bit']],
      ['lr_scheduler', ['cosine', 'constant']],
      ['flash_attention', ['auto', 'on', 'off', true, false]],
      ['dataset_type', ['alpaca', 'chat', 'text']],
      ['val_set_size', [0, 0.999]],
    ]
    for (const [name, all] of values) {
      for (const value of all) {
        const { issues, warnings } = model.resolveHyperparameters({ [name]: value })
        assert.deepEqual({ issues, warnings }, { issues: [], warnings: [] }, `${name} ${String(value)}`)
      }
    }
  })

  it('treats null as the default, and uses the alias when the canonical name is null', () => {
    for (const model of loadCatalog().models) {
      const { values: defaults } = model.resolveHyperparameters({})
      const nulls = Object.fromEntries(Object.keys(defaults).map((name) => [name, null]))
      const resolved = model.resolveHyperparameters(nulls)
      assert.deepEqual(resolved, { values: defaults, warnings: [], issues: [] }, model.config.model_id)
    }
    const model = loadCatalog().model('tabular-regression')
    const resolved = model?.resolveHyperparameters({ epochs: null, num_epochs: 7, n_estimators: null })
    assert.equal(resolved?.values['epochs'], 7)
    assert.deepEqual(resolved.warnings, [])
  })

  it('resolves "auto" to the value that nodes expect, under every name of the checkpoint interval', () => {
    for (const model of loadCatalog().models) {
      const [name] = model.config.auto ?? []
      assert.ok(name, model.config.model_id)
      for (const spelling of [name, 'save_steps', 'checkpoint_every_steps']) {
        const { values, issues } = model.resolveHyperparameters({ [spelling]: 'auto' })
        assert.deepEqual([values[name], issues], [0, []], `${model.config.model_id} ${spelling}`)
      }
      const refused = model.resolveHyperparameters({ epochs: 'auto', save_steps: 'often' })
      assert.deepEqual(refused.issues.map(({ path }) => path).toSorted(), ['/epochs', '/save_steps'])
    }
  })

  it('prefers the canonical name over its alias', () => {
    const model = loadCatalog().model('tabular-regression')

    const resolved = model?.resolveHyperparameters({ epochs: 3, n_estimators: 500 })

    assert.equal(resolved?.values['epochs'], 3)
    assert.match(resolved.warnings.join(), /n_estimators is ignored/)
  })

  it('estimates more memory for a larger dataset', () => {
    const model = loadCatalog().model('tabular-regression')

    assert.ok(model)
    assert.ok(model.estimateMemoryMb(100 * 2 ** 20) > model.estimateMemoryMb(0))
  })

  const faults: [string, (config: Record<string, unknown>) => void, RegExp][] = [
    ['a wrong value', (config) => (config['requires_gpu'] = 'no'), /\/requires_gpu must be boolean/],
    ['an unknown field', (config) => (config['colour'] = 'red'), /additional properties \(colour\)/],
    [
      'an unknown profile',
      (config) => (config['runtime_profile'] = 'x'),
      /\/runtime_profile names an unknown/,
    ],
    [
      'an alias for an unknown hyperparameter',
      (config) => (config['aliases'] = { a: 'b' }),
      /\/aliases\/a names an unknown hyperparameter/,
    ],
    [
      'a model_id that differs from its name',
      (config) => (config['model_id'] = 'other'),
      /\/model_id differs from the file name/,
    ],
  ]
  for (const [fault, change, expected] of faults) {
    it(`rejects a file with ${fault}, naming the file and the path`, async () => {
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

  it("rejects a file that isn't JSON", async () => {
    using folder = temporaryFolder()
    await cp(CATALOG, folder.path, { recursive: true })
    await writeFile(join(folder.path, 'runtime-profiles', 'tabular.json'), '{')

    assert.throws(() => loadCatalog(folder.path), /tabular\.json cannot be used: \/ is not JSON/)
  })
})
