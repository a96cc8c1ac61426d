import { CHAT_PATH, isChatCapable, type TokenCounts, tokensIn } from '../../domain/chat/chat.ts'
import { ApiError } from '../../domain/errors.ts'
import { faultWithMemory, isInputRefused, modelFault } from '../../domain/models/answer.ts'
import { filesOf, namesModel } from '../../domain/task-types/index.ts'
import { inferPathOf } from '../../domain/task-types/infer-path.ts'
import { isToolKey } from '../../domain/tools/catalog.ts'
import { spliceMembers } from '../../platform/json-bytes.ts'
import { turnKeyOf } from '../../platform/turn-key.ts'
import type { InputFile } from '../../schemas/nodes/link.ts'
import type { NodeResponse } from '../gateway/links/buffered-response.ts'
import { type AbortSource, LinkError } from '../gateway/links/link-request.ts'
import type { MemoryReservation } from '../gateway/links/response-memory.ts'
import type { LongResponses } from '../http/long-responses.ts'
import type { RequestMemory } from '../memory/memory.ts'
import type { Services } from '../services.ts'
import type { AdmittedRequest } from './admission.ts'
import { filesToFetch } from './input-files.ts'
import { LONG_RESULT_BYTES } from './long-results.ts'
import type { ModelSlots, SlotRequest } from './model-slots.ts'

/** The result from a warm model, for its task's row. */
export interface WarmWork {
  nodeId: string
  startedAt: Date
  inferenceTimeMs: number
  outcome: { status: 'succeeded'; result: Buffer | null; tokens: TokenCounts } | InferenceFailure
}

/** The result, together with the response itself. */
export interface WarmResponse extends WarmWork {
  /** The memory reserved for the outcome, held until the response is sent. */
  room: MemoryReservation
  outcome:
    | { status: 'succeeded'; result: Buffer; tokens: TokenCounts; value: Record<string, unknown> }
    | InferenceFailure
}

interface InferenceFailure {
  status: 'failed'
  error: string
}

export interface WarmOptions {
  /** Memory to add to the request. If the model rejects it, the request is repeated without it. */
  memory?: RequestMemory | undefined
  /** Aborts the wait for a model slot; defaults to the request's signal. */
  waiting?: AbortSource
}

const MAX_TRIES = 3
/** The default for a profile that isn't in this gateway's catalog yet. */
const DEFAULT_PATH = '/infer'
const INFERENCE_TIMEOUT_MS = 60 * 60 * 1000
/** Codes after which another node may succeed; with any other code, the request would fail there the same way. */
const ELSEWHERE = new Set(['model_cold', 'no_capacity', 'link_lost', 'unsupported'])

/**
 * Sends a request to a node with the model loaded; returns undefined if there is none. If the node is lost or has
 * evicted the model in the meantime, tries another one.
 */
export async function inferOnWarmNode(
  services: Pick<Services, 'links' | 'catalog' | 'now' | 'db' | 'objects' | 'places'>,
  { endpoint, accountId, keyId = '', tier, input }: AdmittedRequest,
  signal: AbortSource,
  { memory, waiting = signal }: WarmOptions = {},
): Promise<WarmResponse | undefined> {
  const { links, catalog, now } = services
  const usual = isChatCapable(endpoint.task_type) ? CHAT_PATH : DEFAULT_PATH
  const template = catalog.profile(endpoint.runtime_profile)?.infer_path ?? usual
  const path = inferPathOf(template, endpoint.task_type)
  const exclude = new Set<string>()
  const fields = filesOf(endpoint.task_type)
  let files: InputFile[] | undefined
  const { model_key, runtime_profile, memory_mb } = endpoint
  while (exclude.size < MAX_TRIES) {
    const request = {
      model_key,
      account_id: accountId,
      key_id: keyId,
      runtime_profile,
      memory_mb,
      exclude,
      tier,
    }
    const taken = placeFor(services, { ...request, signal: waiting })
    using slot = taken instanceof Promise ? await taken : taken
    if (!slot) return undefined

    const { nodeId } = slot
    if (fields.length > 0) files ??= await filesToFetch(services, { account_id: accountId, input }, fields)
    const body = memory ? await memory.addTo(input) : input
    const startedAt = now()
    const began = performance.now()
    try {
      const turn = isToolKey(model_key) || files?.length ? turnKeyOf(accountId) : undefined
      const answer = await links.ask(nodeId, {
        accountId,
        modelKey: model_key,
        path,
        body,
        files,
        deadlineMs: INFERENCE_TIMEOUT_MS,
        signal,
        turn,
      })
      slot.end(answer.head.tokens)
      if (memory?.isGiven && isInputRefused(answer.head.status)) {
        answer.room.release()
        memory.refused()
        continue
      }
      const inferenceTimeMs = since(began)
      using _reading = await turnToRead(links.memory.reading, accountId, answer, signal)
      const outcome = outcomeOf(answer, calledBy(endpoint), memory?.isGiven ?? false)
      return { nodeId, startedAt, inferenceTimeMs, room: answer.room, outcome }
    } catch (err) {
      if (!(err instanceof LinkError) || err.code === 'cancelled') throw err
      if (ELSEWHERE.has(err.code)) exclude.add(nodeId)
      else
        return {
          nodeId,
          startedAt,
          inferenceTimeMs: since(began),
          room: links.memory.room(accountId),
          outcome: { status: 'failed', error: err.message },
        }
    }
  }
  return undefined
}

/** Also returns undefined if the account's share of the queue is used up, because a durable task can wait longer. */
function placeFor(
  { places }: Pick<Services, 'places'>,
  request: SlotRequest,
): ReturnType<ModelSlots['take']> {
  try {
    return places.take(request)
  } catch (err) {
    if (err instanceof ApiError && err.code === 'rate_limited') return undefined
    throw err
  }
}

const since = (began: number): number => Math.round((performance.now() - began) * 100) / 100

/**
 * Waits for the account's turn to have a long response parsed, which blocks the gateway's only thread. Disposal ends
 * the turn, after a pause in proportion to the length.
 */
async function turnToRead(
  reading: LongResponses,
  accountId: string,
  { body, room }: NodeResponse,
  signal: AbortSource,
): Promise<Disposable | undefined> {
  if (body.length <= LONG_RESULT_BYTES) return undefined
  const abandoned = new AbortController()
  signal.addEventListener('abort', () => abandoned.abort())
  if (signal.aborted) abandoned.abort()
  try {
    const turn = await reading.take(accountId, abandoned.signal)
    turn.restForBytes(body.length)
    return turn
  } catch (err) {
    room.release()
    throw err
  }
}

/** Models don't know the endpoint that serves them, but responses show its name. */
const calledBy = ({ task_type, name }: AdmittedRequest['endpoint']): string | undefined =>
  namesModel(task_type) ? name : undefined

function outcomeOf(
  { head: { status }, body, room }: NodeResponse,
  model: string | undefined,
  hasMemory: boolean,
): WarmResponse['outcome'] {
  if (status !== 200) {
    const error = hasMemory ? faultWithMemory(status) : modelFault(status, body.toString())
    return { status: 'failed', error }
  }
  try {
    room.holdValues(body)
  } catch (err) {
    room.release()
    if (!(err instanceof ApiError) || err.code !== 'internal') throw err
    return { status: 'failed', error: err.message }
  }
  try {
    const value = JSON.parse(body.toString()) as unknown
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const answer = value as Record<string, unknown>
      const tokens = tokensIn(value)
      if (model === undefined) return { status: 'succeeded', result: body, tokens, value: answer }
      const result = spliceMembers(body, { model: JSON.stringify(model) })
      return { status: 'succeeded', result, tokens, value: { ...answer, model } }
    }
  } catch {
    // The error is returned below.
  }
  return { status: 'failed', error: 'the model returned something other than a JSON object' }
}
