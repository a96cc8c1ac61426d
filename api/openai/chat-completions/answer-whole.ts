import { ApiError } from '../../../domain/errors.ts'
import { reply, type Reply } from '../../http/reply.ts'
import { spliceMembers } from '../../inference/input-bytes.ts'
import { ownerOfNode } from '../../inference/node-owner.ts'
import { endedEntry } from '../../inference/rows.ts'
import type { WarmAnswer } from '../../inference/warm.ts'
import type { LinkAnswer } from '../../links/node-links.ts'
import type { Services } from '../../services.ts'
import { type Chat, linkRequest, refusalOf, TASK_HEADER } from './chat.ts'
import { NodePicker } from './node-picker.ts'

interface Asked {
  nodeId: string
  startedAt: Date
  inferenceTimeMs: number
  answer: LinkAnswer
}

const NO_USAGE = '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'

/** Answers a chat in one piece, once the row of its task is durable. */
export async function answerWhole(services: Services, chat: Chat): Promise<Reply> {
  const asked = await ask(services, chat)
  const read = readAnswer(asked.answer)
  if (read instanceof ApiError) {
    await record(services, chat, asked, { status: 'failed', error: read.message })
    throw read
  }
  // What was said is the client's alone, as with a stream.
  await record(services, chat, asked, { status: 'succeeded', result: null, value: read.value })
  return reply(200, read.body, {
    'content-type': 'application/json',
    [TASK_HEADER]: chat.ticket.taskId,
  })
}

function record(
  services: Services,
  { ticket, endpoint }: Chat,
  { nodeId, startedAt, inferenceTimeMs }: Asked,
  outcome: WarmAnswer['outcome'],
): Promise<void> {
  const answer = { nodeId, startedAt, inferenceTimeMs, outcome }
  const write = (owner: string | undefined) =>
    services.journal.insert(endedEntry(ticket, answer, owner, services.now()))
  const owner = ownerOfNode(services, endpoint.price_micro, nodeId)
  return owner instanceof Promise ? owner.then(write) : write(owner)
}

async function ask(services: Services, chat: Chat): Promise<Asked> {
  const { links } = services
  const picker = new NodePicker(services, chat)
  for (;;) {
    const picked = picker.pick()
    const nodeId = typeof picked === 'string' ? picked : await picked
    const startedAt = services.now()
    const began = performance.now()
    links.placement.addPending(nodeId, 1)
    try {
      const answer = await links.ask(nodeId, linkRequest(chat, chat.body))
      return { nodeId, startedAt, inferenceTimeMs: performance.now() - began, answer }
    } catch (err) {
      picker.failed(nodeId, err)
    } finally {
      links.placement.addPending(nodeId, -1)
    }
  }
}

/** The answer as it goes to the client: the model server's bytes, with usage said to be zero where it says nothing. */
function readAnswer({
  status,
  body,
}: LinkAnswer): { body: Buffer; value: Record<string, unknown> } | ApiError {
  if (status !== 200) return refusalOf(status, body)
  const value = objectIn(body)
  if (!value) return new ApiError('internal', 'the model answered with something else than a JSON object')
  const isCounted = typeof value.usage === 'object' && value.usage !== null
  return { body: isCounted ? body : spliceMembers(body, { usage: NO_USAGE }), value }
}

export function objectIn(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(body.toString()) as unknown
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
