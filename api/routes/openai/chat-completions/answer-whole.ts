import { tokensIn } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isInputRefused } from '../../../../domain/models/answer.ts'
import { spliceMembers } from '../../../../platform/json-bytes.ts'
import { isCounted } from '../../../gateway/links/answer-memory.ts'
import type { LinkAnswer } from '../../../gateway/links/buffered-response.ts'
import { toApiError } from '../../../http/errors.ts'
import { reply, type Reply } from '../../../http/reply.ts'
import { ownerOfNode } from '../../../inference/node-owner.ts'
import { endedEntry } from '../../../inference/rows.ts'
import type { WarmWork } from '../../../inference/warm.ts'
import type { RequestMemory } from '../../../memory/memory.ts'
import type { Services } from '../../../services.ts'
import { bytesFor, type Chat, linkRequest, naming, refusalOf, remembering, TASK_HEADER } from './chat.ts'
import { NodePicker } from './node-picker.ts'

const OPENING = 0x7b
const CLOSING = 0x7d
const NO_USAGE = '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'

/** Responds to a chat in one piece, once the row of its task is durable. */
export async function answerWhole(services: Services, chat: Chat): Promise<Reply> {
  const { links } = services
  const { memory } = chat
  const picker = new NodePicker(services, chat)
  let asked: Omit<WarmWork, 'outcome'> | undefined
  let answer: LinkAnswer | undefined
  let read: ReturnType<typeof readAnswer>
  try {
    do {
      const picked = picker.pick()
      const nodeId = typeof picked === 'string' ? picked : await picked
      const sent = memory ? await remembering(chat, memory) : chat
      asked = { nodeId, startedAt: services.now(), inferenceTimeMs: 0 }
      const began = performance.now()
      links.placement.addPending(nodeId, 1)
      try {
        const body = bytesFor(sent, links.versionOf(nodeId) ?? '')
        answer = await links.ask(nodeId, linkRequest(chat, body))
        if (memory?.isGiven && isInputRefused(answer.head.status)) {
          answer.room.release()
          answer = undefined
          memory.refused()
        }
        asked.inferenceTimeMs = performance.now() - began
      } catch (err) {
        picker.failed(nodeId, err)
      } finally {
        links.placement.addPending(nodeId, -1)
      }
    } while (!answer)
    const { body, room } = answer
    if (isCounted(body)) chat.disconnect.whenOver(() => room.release())
    read = readAnswer(answer, memory)
  } catch (err) {
    // A chat that no node received, or whose client has left, does not become a task.
    if (!asked || chat.disconnect.aborted) throw err
    const error = toApiError(err)
    await record(services, chat, { ...asked, outcome: { status: 'failed', error: error.message } })
    throw naming(chat, error)
  }
  // The content of a chat is not stored, as with a stream.
  const outcome =
    read instanceof ApiError
      ? { status: 'failed' as const, error: read.message }
      : { status: 'succeeded' as const, result: null, tokens: read.tokens }
  await record(services, chat, { ...asked, outcome })
  if (read instanceof ApiError) throw naming(chat, read)
  return reply(200, read.body, {
    'content-type': 'application/json',
    [TASK_HEADER]: chat.draft.taskId,
  })
}

function record(services: Services, { draft, endpoint }: Chat, work: WarmWork): Promise<void> {
  const write = (owner: string | undefined) =>
    services.journal.insert(endedEntry(draft, work, owner, services.now()))
  const owner = ownerOfNode(services, endpoint.price_micro, work.nodeId)
  return owner instanceof Promise ? owner.then(write) : write(owner)
}

/** Returns the response for the client: the model server's bytes, with a usage of zero where it reports none. */
function readAnswer(
  { head, body, room }: LinkAnswer,
  memory: RequestMemory | undefined,
): { body: Buffer; tokens: number } | ApiError {
  const { status, tokens } = head
  if (status !== 200) return refusalOf(status, body, memory)
  if (tokens !== undefined && seemsCounted(body)) return { body, tokens }
  room.holdValues(body)
  const value = objectIn(body)
  if (!value) return new ApiError('internal', 'the model answered with something else than a JSON object')
  const isCounted = typeof value.usage === 'object' && value.usage !== null
  return { body: isCounted ? body : spliceMembers(body, { usage: NO_USAGE }), tokens: tokensIn(value) }
}

/**
 * Returns whether the bytes look like a complete response. The node has parsed it, but the gateway does not
 * rely on the node for that.
 */
const seemsCounted = (body: Buffer): boolean =>
  body[0] === OPENING && body.at(-1) === CLOSING && body.includes('"usage"')

export function objectIn(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(body.toString()) as unknown
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
