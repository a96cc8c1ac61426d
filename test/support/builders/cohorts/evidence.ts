import { createHash } from 'node:crypto'
import type { CompatibilityEvidenceRegistration } from '../../../../schemas/cohorts/evaluator.ts'
import { type AnyBody, type Answer, EVALUATOR_TOKEN, type TestApi } from '../../servers/api.ts'

export const EVALUATOR = '/api/v1/internal/cohort/evaluator'
export const TOKEN_HEADER = { 'x-cohort-evaluator-token': EVALUATOR_TOKEN }

/** Calls an evaluator route with the evaluator token. */
export const evaluate = (api: TestApi, path: string, body: object): Promise<Answer<AnyBody>> =>
  api.call('POST', `${EVALUATOR}/${path}`, { headers: TOKEN_HEADER, body })

/** Builds a safetensors file of 32-bit floats. */
export function safetensors(tensors: Record<string, { shape: number[]; values: readonly number[] }>): Buffer {
  let at = 0
  const entries = Object.entries(tensors).map(([name, { shape, values }]) => {
    const data_offsets = [at, (at += 4 * values.length)]
    return [name, { dtype: 'F32', shape, data_offsets }] as const
  })
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const data = Object.values(tensors).map(({ values }) => Buffer.from(new Float32Array(values).buffer))
  return Buffer.concat([length, header, ...data])
}

/** Builds a map file with these dimensions. */
export const mapFile = (input: number, output: number): Buffer =>
  safetensors({
    weight: { shape: [output, input], values: Array.from({ length: input * output }, (_, i) => i / 10) },
    bias: { shape: [output], values: Array.from({ length: output }, () => 0) },
  })

/** Builds the request body that registers a map. */
export function evidenceBody(
  spaces: Pick<CompatibilityEvidenceRegistration, 'source_space_id' | 'target_space_id'>,
  { file = mapFile(4, 6), ...overrides }: Partial<CompatibilityEvidenceRegistration> & { file?: Buffer } = {},
): CompatibilityEvidenceRegistration {
  return {
    ...spaces,
    relation: 'affine',
    adapter: {
      uri: `data:application/octet-stream;base64,${file.toString('base64')}`,
      sha256: createHash('sha256').update(file).digest('hex'),
      size_bytes: file.length,
      format: 'safetensors',
      input_dimensions: 4,
      output_dimensions: 6,
    },
    metric: 'consumer_agreement',
    estimate: 0.97,
    score: 0.95,
    interval: { low: 0.95, high: 0.99, level: 0.95, method: 'bca', resamples: 2000 },
    sample_count: 1000,
    fit_count: 2000,
    null_model: { upper_95: 0.3, p_value: 0.0099, permutations: 100 },
    dataset_digest: 'ab'.repeat(32),
    seed: 1,
    evaluator: { name: 'a test', version: '1' },
    valid_until: new Date(Date.now() + 30 * 86_400_000).toISOString(),
    ...overrides,
  }
}

/** Returns the output space of an encoder. */
export const embeddingSpace = (dimensions: number, overrides: object = {}) => ({
  name: 'output',
  role: 'produces',
  kind: 'embedding',
  dimensions,
  dtype: 'f32',
  pooling: 'mean',
  normalized: true,
  ...overrides,
})
