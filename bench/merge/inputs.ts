import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { headerFor } from '../../node-runtime/merge/safetensors.ts'
import { randomNumbers } from '../../test/support/builders/models/checkpoints.ts'
import { llamaShapes, writeLargeCheckpoint } from '../../test/support/builders/models/large-checkpoint.ts'
import { isOnce } from '../rounds.ts'

const SIZE = isOnce
  ? { hidden: 128, inner: 256, layers: 2, vocab: 512 }
  : { hidden: 1_024, inner: 4_096, layers: 24, vocab: 35_200 }
const RANK = 16

/**
 * Writes a base model, two models close to it and a LoRA adapter on all of its linear layers; returns the number of
 * parameters of each model.
 */
export function makeInputs(dir: string): number {
  const [parameters = 0] = [0, 1, 2].map((seed) =>
    writeLargeCheckpoint(join(dir, `m${seed}`), { seed, ...SIZE }),
  )
  writeLargeAdapter(join(dir, 'adapter'))
  return parameters
}

function writeLargeAdapter(dir: string): void {
  mkdirSync(dir, { recursive: true })
  writeFileSync(
    join(dir, 'adapter_config.json'),
    JSON.stringify({ peft_type: 'LORA', r: RANK, lora_alpha: 32, bias: 'none', fan_in_fan_out: false }),
  )
  const modules = llamaShapes(SIZE).filter(([name]) => name.includes('_proj'))
  const factors = modules.flatMap(([name, [outs = 0, ins = 0]], i) => {
    const module = `base_model.model.${name.replace(/\.weight$/, '')}`
    return [
      { name: `${module}.lora_A.weight`, shape: [RANK, ins], values: randomNumbers(RANK * ins, i, 0.01) },
      {
        name: `${module}.lora_B.weight`,
        shape: [outs, RANK],
        values: randomNumbers(outs * RANK, i + 500, 0.01),
      },
    ]
  })
  const header = headerFor(
    factors.map(({ name, shape, values }) => ({ name, shape, dtype: 'F32', bytes: values.byteLength })),
  )
  const bodies = factors.map(({ values }) => Buffer.from(values.buffer))
  writeFileSync(join(dir, 'adapter_model.safetensors'), Buffer.concat([header, ...bodies]))
}
