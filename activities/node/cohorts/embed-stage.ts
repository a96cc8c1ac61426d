import {
  bytesOfVectors,
  headOfVectors,
  sizeOfVectors,
  writeVectors,
} from '../../../node-runtime/cohorts/vectors.ts'
import { GrowingPayload } from '../../../node-runtime/edges/growing-payload.ts'
import type { OutgoingEdge } from '../../../schemas/cohorts/stage.ts'
import { type InferenceResult, InferenceError } from '../models/call-model.ts'
import { callerOf, publishPayload, waitForPayloadSpace, type StageWork } from './stage-work.ts'

/** The number of inputs per request when vectors are handed over in batches. */
const BATCH = 32

/** A model's response to an embedding request. */
interface Embedded {
  embedding?: number[]
  embeddings?: number[][]
  truncated?: boolean
  usage?: { prompt_tokens: number; total_tokens: number }
}

type ModelCall = (input: Record<string, unknown>) => Promise<InferenceResult>

/**
 * Embeds text inputs and stores their vectors for the consuming stages. With a `session` edge, many inputs are embedded
 * in batches, and each batch is sent while the next one is computed.
 */
export async function embed(
  work: StageWork,
  input: Record<string, unknown>,
  ask: ModelCall,
): Promise<InferenceResult> {
  const { outgoing } = work.claim
  const sessions = outgoing.filter(({ mode }) => mode === 'session')
  const texts = input['text']
  if (sessions.length > 0 && isTexts(texts) && texts.length > BATCH)
    return embedInBatches(work, { ...input, text: texts }, { ask, sessions })
  const answered = await ask(input)
  if (outgoing.length > 0) await storeVectors(work, answered.result as Embedded)
  return answered
}

/** A list that contains a non-string goes to the model unchanged, so that the model's own error names the item. */
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')

async function storeVectors(work: StageWork, { embedding, embeddings }: Embedded): Promise<void> {
  const { claim, deps } = work
  const vectors = embeddings ?? (embedding ? [embedding] : [])
  const bytes = writeVectors(vectors, fingerprintOf(claim.outgoing))
  await waitForPayloadSpace(work, bytes.length)
  await using writer = await deps.edges.store.write({ sizeBytes: bytes.length })
  await writer.write(bytes)
  using payload = await writer.finish()
  const shape = [vectors.length, vectors[0]?.length ?? 0]
  await publishPayload(work, { payload, encoding: 'safetensors', shape, dtype: 'f32' })
}

const fingerprintOf = ([edge]: readonly OutgoingEdge[]): string => {
  if (!edge) throw new Error('this stage has no outgoing edge')
  return edge.space_fingerprint
}

async function embedInBatches(
  work: StageWork,
  input: Record<string, unknown> & { text: string[] },
  { ask, sessions }: { ask: ModelCall; sessions: readonly OutgoingEdge[] },
): Promise<InferenceResult> {
  const { claim, deps } = work
  const rows = input.text.length
  const parts: Embedded[] = []
  let endedAt = 0
  let width = 0
  await using growing = await GrowingPayload.begin(deps.edges.store)
  await using offers = new AsyncDisposableStack()
  for (const edge of sessions)
    offers.use(await deps.keepers.offer(callerOf(work), edge, { source: growing, encoding: 'safetensors' }))
  for (let at = 0; at < rows; at += BATCH) {
    const text = input.text.slice(at, at + BATCH)
    const answered = await ask({ ...input, text }).catch((err: unknown) => {
      throw withPlace(err, at)
    })
    const part = answered.result as Embedded
    const vectors = part.embeddings ?? []
    if (vectors.length !== text.length)
      throw new InferenceError(`the model returned ${vectors.length} vectors for ${text.length} inputs`, true)
    if (at === 0) {
      width = vectors[0]?.length ?? 0
      const head = headOfVectors({ rows, width }, fingerprintOf(claim.outgoing))
      const sizeBytes = head.length + sizeOfVectors({ rows, width })
      await waitForPayloadSpace(work, sizeBytes)
      await growing.expect(sizeBytes)
      await growing.append(head)
    }
    await growing.append(bytesOfVectors(vectors, width))
    parts.push(part)
    endedAt = answered.endedAt
  }
  using payload = await growing.finish()
  await publishPayload(work, { payload, encoding: 'safetensors', shape: [rows, width], dtype: 'f32' })
  return { result: joined(parts), endedAt }
}

/** Adds the batch's offset to an error, because the model numbers inputs from the start of the batch. */
function withPlace(err: unknown, first: number): unknown {
  if (!(err instanceof InferenceError)) return err
  return new InferenceError(`in the batch that begins with text[${first}]: ${err.message}`, err.retryable)
}

/** Merges the responses of all batches into what a single response would contain. */
function joined(parts: readonly Embedded[]): Record<string, unknown> {
  const isCut = parts.some(({ truncated }) => truncated)
  const usages = parts.flatMap(({ usage }) => usage ?? [])
  const total = (of: 'prompt_tokens' | 'total_tokens') => usages.reduce((sum, usage) => sum + usage[of], 0)
  return {
    ...parts[0],
    embeddings: parts.flatMap(({ embeddings }) => embeddings ?? []),
    ...(usages.length > 0 && {
      usage: { prompt_tokens: total('prompt_tokens'), total_tokens: total('total_tokens') },
    }),
    ...(isCut && { truncated: true }),
  }
}
