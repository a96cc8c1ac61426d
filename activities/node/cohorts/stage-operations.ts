import { lstat } from 'node:fs/promises'
import { EdgeError } from '../../../domain/cohorts/edge-error.ts'
import { inferPathOf } from '../../../domain/task-types/infer-path.ts'
import { lend, nameFor, adoptServerFile } from '../../../node-runtime/cohorts/server-files.ts'
import { type Dtype, EdgeFailure } from '../../../schemas/cohorts/vocabulary.ts'
import { valuesOf } from '../../../schemas/common.ts'
import { type InferenceResult, callModel, InferenceError, readAnswer } from '../models/call-model.ts'
import { embed } from './embed-stage.ts'
import type { StageInputs } from './gather-input.ts'
import { publishPayload, waitForPayloadSpace, type StageWork } from './stage-work.ts'

interface PrefillResult {
  tokens: number
  shape?: number[]
  dtype?: Dtype
}

/** Runs a stage's model. */
export async function runModel(
  work: StageWork,
  { input, payloads }: StageInputs,
  files: (input: Record<string, unknown>) => Promise<Buffer>,
): Promise<InferenceResult> {
  const { operation, task_type } = work.claim
  if (operation === 'prefill') return prefill(work, input)
  if (operation === 'decode') return decode(work, input, payloads)
  const path = inferPathOf(work.server.profile.infer_path, task_type)
  const infer = async (asked: Record<string, unknown>) => callServer(work, path, await files(asked))
  return operation === 'embed' ? embed(work, input, infer) : infer(input)
}

const callServer = async (
  { deps, claim, held, server, signal }: StageWork,
  path: string,
  body: Buffer,
): Promise<InferenceResult> =>
  readAnswer(deps, held, await callModel(server, { path, body, turn: claim.turn }, signal), signal)

/** Prefills a prompt and stores its KV cache for the stages that decode from it. */
async function prefill(work: StageWork, input: Record<string, unknown>): Promise<InferenceResult> {
  const { claim, deps, server } = work
  const [edge] = claim.outgoing
  if (!edge) throw new InferenceError('no stage continues from this prompt', false)
  await using file = nameFor(server)
  const { space_fingerprint } = edge
  const body = Buffer.from(JSON.stringify({ ...input, file: file.name, space_fingerprint }))
  const answered = await callServer(work, '/prefill', body)
  const { tokens, shape, dtype } = answered.result as unknown as PrefillResult
  await waitForPayloadSpace(work, (await lstat(file.path)).size)
  using payload = await adoptServerFile(
    deps.edges.store,
    file,
    Math.max(...claim.outgoing.map((one) => one.max_bytes)),
  )
  const encoding = server.profile.npm_env === 'llamacpp' ? 'llama-state' : 'safetensors'
  await publishPayload(work, { payload, encoding, shape, dtype })
  return { ...answered, result: { tokens, size_bytes: payload.sizeBytes } }
}

/** Continues from a prompt that another stage has prefilled. */
async function decode(
  work: StageWork,
  input: Record<string, unknown>,
  payloads: StageInputs['payloads'],
): Promise<InferenceResult> {
  const [received] = payloads
  if (!received || payloads.length > 1)
    throw new InferenceError('a stage that decodes needs exactly one prompt', false)
  const { payload, agreed } = received
  await using file = await lend(payload, work.server)
  const body = {
    ...input,
    file: file.name,
    size_bytes: payload.sizeBytes,
    sha256: payload.sha256,
    space_fingerprint: agreed.space_fingerprint,
    stream: false,
  }
  const { deps, claim, held, server, signal } = work
  const call = { path: '/decode', body: Buffer.from(JSON.stringify(body)), turn: claim.turn }
  const answer = await callModel(server, call, signal)
  if (answer.statusCode === 422) throw refusalIn(await answer.body.text())
  return readAnswer(deps, held, answer, signal)
}

/**
 * Converts the model server's rejection of a payload to an error, with the server's own error code if it is a known
 * one.
 */
function refusalIn(text: string): EdgeError {
  const { error } = JSON.parse(text) as { error: { message: string; code: string } }
  const isKnown = valuesOf(EdgeFailure).includes(error.code)
  return new EdgeError(isKnown ? (error.code as EdgeFailure) : 'refused', error.message)
}
