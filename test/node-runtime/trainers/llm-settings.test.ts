import assert from 'node:assert/strict'
import { loadCatalog } from '../../../platform/catalog.ts'
import { probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'

interface Settings {
  sequence_len: number
  group_by_length: boolean
  flash_attention: string
  save_every: number
  rates: number[]
  packing: boolean
}

describe('fine-tuning configuration (4.3)', () => {
  let seen: Record<
    'cuda' | 'xpu' | 'plain' | 'packed' | 'long' | 'constant' | 'auto' | 'rows' | 'older',
    Settings
  >

  before(requireLlm)
  before(async () => {
    const ask = (device: string, given: Record<string, unknown>, steps: number) => ({
      ask: 'settings',
      device,
      steps,
      hyperparameters: loadCatalog().model('llm-qlora-finetune')?.resolveHyperparameters(given).values,
    })
    const long = ask('cpu', {}, 10_000)
    const auto = { ...long, hyperparameters: { ...long.hyperparameters, save_steps: 'auto' } }
    const { packing: _, ...older } = long.hyperparameters!
    const kinds = ['cuda', 'xpu', 'plain', 'packed', 'long', 'constant', 'auto', 'rows', 'older']
    const settings = await probeLlm<Settings[]>([
      ask('cuda', { optimizer: 'paged_adamw_8bit', flash_attention: false, warmup_ratio: 0.1 }, 100),
      ask('xpu', {}, 100),
      { ...ask('cpu', {}, 100), hardware: 'xpu' },
      ask('cpu', { group_by_length: false, sample_packing: true }, 100),
      long,
      ask('cpu', { lr_scheduler: 'constant', save_steps: 7 }, 100),
      auto,
      ask('cpu', { packing: true }, 100),
      { ...long, hyperparameters: older },
    ])
    seen = Object.fromEntries(kinds.map((kind, i) => [kind, settings[i]])) as typeof seen
  })

  it('caps sequence_len on XPU nodes only', () => {
    assert.deepEqual(
      [seen.cuda, seen.xpu, seen.packed].map((one) => one.sequence_len),
      [8192, 6144, 8192],
    )
    assert.equal(seen.plain.sequence_len, 6144, 'XPU nodes have the cap even in a CPU-only environment')
  })

  it('lets sample_packing turn on group_by_length without packing, and accepts booleans for flash_attention', () => {
    assert.deepEqual([seen.packed.group_by_length, seen.packed.packing], [true, false])
    assert.equal(seen.cuda.flash_attention, 'off')
  })

  it('packs if packing is on, and not for runs that were created before it existed', () => {
    assert.deepEqual([seen.rows.packing, seen.older.packing], [true, false])
  })

  it('writes a checkpoint after every twentieth of the steps, at least every 200 steps, or as configured', () => {
    assert.deepEqual([seen.cuda.save_every, seen.long.save_every, seen.constant.save_every], [200, 500, 7])
    assert.equal(seen.auto.save_every, seen.long.save_every)
  })

  it('warms up, then decays along a cosine to a tenth of the peak, unless the rate is constant', () => {
    const { rates } = seen.cuda

    assert.ok(Math.abs(rates[0]! - 0.1) < 1e-9)
    assert.equal(rates[9], 1)
    assert.ok(Math.abs(rates.at(-1)! - 0.1) < 1e-9)
    assert.ok(rates.slice(10).every((rate, index, all) => index === 0 || rate < all[index - 1]!))
    assert.ok(Math.abs(rates[10 + 45]! - 0.55) < 0.02)
    assert.ok(seen.constant.rates.every((rate) => rate === 1))
  })
})
