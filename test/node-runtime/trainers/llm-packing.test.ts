import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sumRows, writeJsonl } from '../../support/builders/chat-rows.ts'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, type TrainerJob, type TrainerRun } from '../../support/servers/nodes/trainer.ts'

interface Packing {
  warned: boolean
  rows: [count: number, width: number]
  tokens: [padded: number, packed: number]
  targets: [padded: number, packed: number, batch: number]
  loss: number
  gradients: number
}

const PACKED = 'codegen gemma2 gpt2 gpt_neo gptj granite llama'.split(' ')
/**
 * Bloom and MPT have attention biases instead of positions. Mamba has a recurrent state, LFM2 has convolutions between
 * its attention layers, and Falcon-H1 has both next to its attention. These two leak less than a tenth of a row's effect.
 */
const APART = 'bloom falcon falcon_h1 gpt_oss lfm2 mamba mpt'.split(' ')
const ADAPTERS = ['lora', 'none']
/** Models whose last position comes before `sequence_len`. They have no position or no mask for longer rows. */
const SHORT = { gpt2: { n_positions: 20 }, gpt_neo: { max_position_embeddings: 20 } }
const ROUNDING = 1e-5

const messages = (run: TrainerRun): string =>
  run.events
    .filter(({ event }) => event === 'log')
    .map(({ message }) => String(message))
    .join('\n')

const weightsOf = ({ outputDir }: TrainerRun): Promise<Buffer> =>
  readFile(join(outputDir, 'adapter', 'adapter_model.safetensors'))

describe('packing rows', function () {
  this.timeout(600_000)
  const packed = PACKED.flatMap((family) => ADAPTERS.map((adapter) => ({ family, adapter })))
  const apart = APART.map((family) => ({ family, adapter: 'lora' }))
  const short = Object.entries(SHORT).map(([family, sizes]) => ({
    family,
    adapter: 'lora',
    sizes,
    sequence_len: 200,
    pad: true,
  }))
  const folder = temporaryFolder()
  let seen: Packing[]

  before(requireLlm)
  before(async () => {
    seen = await probeLlm<Packing[]>(
      [...packed, ...apart, ...short].map((one) => ({ ask: 'packing', ...one })),
    )
  })
  after(() => folder[Symbol.dispose]())

  for (const [index, { family, adapter }] of packed.entries()) {
    it(`does not change the loss and the gradients of the same rows: ${family} with adapter ${adapter}`, () => {
      const { warned, rows, tokens, targets, loss, gradients } = seen[index]!

      assert.equal(warned, false)
      // Six rows of 54 tokens in all.
      assert.deepEqual(rows, [3, 20])
      assert.deepEqual(tokens, [54, 54])
      assert.equal(new Set(targets).size, 1, targets.join())
      assert.ok(loss < ROUNDING && gradients < ROUNDING, `${loss} ${gradients}`)
    })
  }

  for (const [index, { family }] of apart.entries()) {
    it(`leaves rows apart and warns if packed rows would see each other: ${family}`, () => {
      const { warned, rows } = seen[packed.length + index]!

      assert.deepEqual([warned, rows], [true, [6, 17]])
    })
  }

  for (const [index, { family }] of short.entries()) {
    it(`packs and pads rows up to the last position of the model: ${family}`, () => {
      const { warned, rows, loss, gradients } = seen[packed.length + apart.length + index]!

      assert.deepEqual([warned, rows], [false, [3, 20]])
      assert.ok(loss < ROUNDING && gradients < ROUNDING, `${loss} ${gradients}`)
    })
  }

  it('trains on all rows in fewer steps, and resumes with the same result', async () => {
    const base = join(folder.path, 'base')
    await makeTinyLlm(base)
    const job = (name: string): TrainerJob => ({
      folder: join(folder.path, name),
      model: 'llm-qlora-finetune',
      format: 'jsonl',
      file,
      baseDir: base,
      hyperparameters: {
        adapter: 'lora',
        packing: true,
        epochs: 2,
        sequence_len: 256,
        learning_rate: 0.01,
        gradient_accumulation_steps: 2,
        save_steps: 3,
      },
    })
    const file = await writeJsonl(folder.path, sumRows(24))

    const straight = await runTrainer(job('straight'))
    const [checkpoint] = straight.events.filter(({ event }) => event === 'checkpoint')
    const resumed = await runTrainer({ ...job('straight'), resumeFrom: String(checkpoint?.['path']) })

    assert.deepEqual([straight.code, resumed.code], [0, 0], messages(resumed))
    const [, groups] = /Packed 24 rows into (\d+) of at most 256 tokens\./.exec(messages(straight)) ?? []
    assert.ok(Number(groups) < 12, messages(straight))
    assert.match(messages(straight), new RegExp(`, ${Math.ceil(Number(groups) / 2)} per epoch`))
    assert.ok(resumed.events.some(({ event }) => event === 'resumed'))
    assert.deepEqual(resumed.result.metrics, straight.result.metrics)
    assert.ok((await weightsOf(resumed)).equals(await weightsOf(straight)))
  })
})
