import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import type { TaskOutputFile } from '../../../../db/tables/inference.ts'
import { NO_TOKENS, type TokenCounts } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isInputRefused } from '../../../../domain/models/answer.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import { isCounted } from '../../../gateway/links/response-memory.ts'
import { failureOf } from '../../../gateway/metrics/model-metrics.ts'
import { toApiError } from '../../../http/errors.ts'
import { reply, type Reply, type ReplyHeaders } from '../../../http/reply.ts'
import { ownerOfNode } from '../../../inference/node-owner.ts'
import { endedEntry } from '../../../inference/rows.ts'
import type { WarmWork } from '../../../inference/warm.ts'
import type { Services } from '../../../services.ts'
import { linkRequest, type ModelCall, naming, TASK_HEADER } from './model-call.ts'
import { NodePicker } from './node-picker.ts'

/** The part of a model's response that the client gets, and its tokens. */
export interface ClientResponse {
  body: Buffer
  /** Headers in addition to the task id; the content type is JSON by default. */
  headers?: ReplyHeaders
  tokens: TokenCounts
  /** The result and the files that the task keeps; none by default. */
  stored?: { result: Buffer; outputs: readonly TaskOutputFile[] }
}

/** How one kind of call is sent and read. */
export interface CallOptions {
  /** Returns the body for a node of this version; called again for each node that is tried. */
  bytesFor: (version: string) => Buffer | Promise<Buffer>
  /** Reads the response of a model server; a returned error goes to the client instead. */
  read: (
    answer: NodeResponse,
    call: ModelCall,
  ) => ClientResponse | ApiError | Promise<ClientResponse | ApiError>
}

/**
 * Responds to a call in one piece, once the row of its task is durable. Only the client gets the content; it is stored
 * only if `read` returns `stored`. Throws `model_cold` or `no_capacity` when no node has the model loaded in time.
 */
export async function respondBuffered(
  services: Services,
  call: ModelCall,
  { bytesFor, read: readAnswer }: CallOptions,
): Promise<Reply> {
  const { links } = services
  const { memory } = call
  const measured = { modelKey: call.endpoint.model_key, path: call.path, beganAt: performance.now() }
  const picker = new NodePicker(services, call)
  let attempt: Omit<WarmWork, 'outcome'> | undefined
  let answer: NodeResponse | undefined
  let read: ClientResponse | ApiError
  try {
    do {
      const picked = picker.pick()
      using slot = picked instanceof Promise ? await picked : picked
      const { nodeId } = slot
      const bytes = bytesFor(links.versionOf(nodeId) ?? '')
      const body = bytes instanceof Promise ? await bytes : bytes
      attempt = { nodeId, startedAt: services.now(), inferenceTimeMs: 0 }
      const began = performance.now()
      try {
        answer = await links.ask(nodeId, linkRequest(call, body))
        slot.end(answer.head.tokens)
        attempt.inferenceTimeMs = performance.now() - began
        if (memory?.isGiven && isInputRefused(answer.head.status)) {
          answer.room.release()
          answer = undefined
          memory.refused()
        }
      } catch (err) {
        picker.failed(nodeId, err)
      }
    } while (!answer)
    const { body, room } = answer
    if (isCounted(body)) call.disconnect.whenOver(() => room.release())
    const reading = readAnswer(answer, call)
    read = reading instanceof Promise ? await reading : reading
  } catch (err) {
    services.modelMetrics.ended({ ...measured, tokens: NO_TOKENS, failure: failureOf(err) })
    // A call that no node received, or whose client has disconnected, does not become a task.
    if (!attempt || call.disconnect.aborted) throw err
    const error = toApiError(err)
    await record(services, call, { ...attempt, outcome: { status: 'failed', error: error.message } })
    throw naming(call, error)
  }
  const outcome =
    read instanceof ApiError
      ? { status: 'failed' as const, error: read.message }
      : { status: 'succeeded' as const, result: read.stored?.result ?? null, tokens: read.tokens }
  if (outcome.status === 'succeeded') services.keyMeters.spend(call.draft.keyId, outcome.tokens)
  await record(services, call, { ...attempt, outcome })
  services.modelMetrics.ended({
    ...measured,
    ...(read instanceof ApiError ? { tokens: NO_TOKENS, failure: read.code } : { tokens: read.tokens }),
  })
  if (read instanceof ApiError) throw naming(call, read)
  if (read.stored) await taskRepository.addOutputs(services.db, call.draft.taskId, read.stored.outputs)
  return reply(200, read.body, {
    'content-type': 'application/json',
    ...read.headers,
    [TASK_HEADER]: call.draft.taskId,
  })
}

function record(services: Services, { draft, endpoint }: ModelCall, work: WarmWork): Promise<void> {
  const write = (owner: string | undefined) => {
    const inserted = services.journal.insert(endedEntry(draft, work, owner, services.now()))
    return draft.budgetHold ? inserted.then(() => draft.budgetHold?.book()) : inserted
  }
  const owner = ownerOfNode(services, endpoint.price_micro, work.nodeId)
  return owner instanceof Promise ? owner.then(write) : write(owner)
}
