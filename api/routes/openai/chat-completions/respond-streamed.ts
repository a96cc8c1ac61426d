import type { ServerResponse } from 'node:http'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { canStream, NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isInputRefused } from '../../../../domain/models/answer.ts'
import { memberBytes, spliceMembers } from '../../../../platform/json-bytes.ts'
import { emit } from '../../../events.ts'
import type { OpenRow } from '../../../gateway/journal/journal.ts'
import type { MemoryReservation } from '../../../gateway/links/response-memory.ts'
import { CLIENT_CLOSED, failureOf } from '../../../gateway/metrics/model-metrics.ts'
import { toApiError } from '../../../http/errors.ts'
import { EVENT_STREAM_HEADERS } from '../../../http/event-stream.ts'
import { HANDLED } from '../../../http/reply.ts'
import { ownerOfNode } from '../../../inference/node-owner.ts'
import { runningEntry } from '../../../inference/rows.ts'
import type { Services } from '../../../services.ts'
import { linkRequest, naming, TASK_HEADER } from '../calls/model-call.ts'
import { NodePicker } from '../calls/node-picker.ts'
import { type Chat, chatBytes } from './chat.ts'
import { SseClient, type StreamClient } from './sse-client.ts'
import { type StreamResult, StreamRelay } from './stream-relay.ts'

/** A stream's row, and the last node that worked on it. */
interface Row {
  open: OpenRow | undefined
  nodeId: string | undefined
  startedAt: Date
  room: MemoryReservation | undefined
}

function reservationFor({ links }: Services, { draft, disconnect }: Chat): MemoryReservation {
  const room = links.memory.room(draft.accountId)
  disconnect.whenOver(() => room.release())
  return room
}

/**
 * Streams a chat. The task's row is opened while the node works and before the first byte is sent, and closed after the
 * last. Nothing is sent before the model is loaded, so that a status other than 200 stays possible. `translate` wraps
 * the client for a route whose events differ from those of a chat.
 */
export async function respondStreamed(
  services: Services,
  chat: Chat,
  res: ServerResponse,
  translate: (client: SseClient) => StreamClient = (client) => client,
): Promise<typeof HANDLED> {
  const row: Row = { open: undefined, nodeId: undefined, startedAt: chat.draft.createdAt, room: undefined }
  const headers = { ...EVENT_STREAM_HEADERS, [TASK_HEADER]: chat.draft.taskId }
  const keepAliveMs = services.config.HEARTH_STREAM_KEEPALIVE_S * 1_000
  using client = translate(new SseClient(res, { headers, keepAliveMs }))
  const { modelMetrics } = services
  const measured = { modelKey: chat.endpoint.model_key, path: chat.path, beganAt: performance.now() }
  try {
    const streamed = await stream(services, chat, client, row)
    const { tokens, error, firstAt } = streamed
    const failure = error && (chat.disconnect.aborted ? CLIENT_CLOSED : 'internal')
    modelMetrics.ended({ ...measured, tokens, firstAt, failure })
    close(services, chat, row, streamed)
  } catch (err) {
    modelMetrics.ended({ ...measured, tokens: NO_TOKENS, failure: failureOf(err) })
    const error = toApiError(err)
    close(services, chat, row, {
      tokens: NO_TOKENS,
      error: err instanceof Error ? err.message : error.message,
    })
    // A keep-alive comment may already have opened the stream.
    if (res.destroyed) throw err
    if (!client.hasHead) throw row.open ? naming(chat, error) : err
    client.fail(error)
  }
  return HANDLED
}

async function stream(services: Services, chat: Chat, client: StreamClient, row: Row): Promise<StreamResult> {
  const { links, journal, gateway } = services
  const { memory } = chat
  const picker = new NodePicker(services, chat)
  const bytesFor = chatBytes(chat)
  for (;;) {
    using slot = await picker.pick(() => client.keepAlive())
    const { nodeId } = slot
    try {
      const version = links.versionOf(nodeId) ?? ''
      const bytes = await bytesFor(version)
      Object.assign(row, { nodeId, startedAt: services.now() })
      if (!row.open) {
        row.open = journal.open(runningEntry(chat.draft, gateway.id))
        // The budget is booked once the row is written. A failed write fails the stream, which reports it.
        void row.open.written.then(() => chat.draft.budgetHold?.book()).catch(() => {})
      }
      client.keepAlive()
      const relay = new StreamRelay(client, row.open.opened, {
        wantsEvents: canStream(version),
        room: (row.room ??= reservationFor(services, chat)),
        memory,
      })
      const body = relay.wantsEvents ? bytes : withoutStream(bytes)
      const streamed = await relay.run((handlers) => links.request(nodeId, linkRequest(chat, body), handlers))
      slot.end(streamed.tokens)
      return streamed
    } catch (err) {
      client.stopKeepAlive()
      if (memory?.isGiven && isRefusal(err)) memory.refused()
      else picker.failed(nodeId, err)
    }
  }
}

/** Returns whether the model rejected the request's input. */
const isRefusal = (err: unknown): boolean => err instanceof ApiError && isInputRefused(err.status)

/** Removes the stream options for a node that cannot stream. */
function withoutStream(body: Buffer): Buffer {
  const hasOptions = memberBytes(body, 'stream_options') !== undefined
  return spliceMembers(body, { stream: 'false', ...(hasOptions && { stream_options: 'null' }) })
}

/** Settles the task's row. By now the client has its response, or got an error before the row was durable. */
function close(services: Services, chat: Chat, row: Row, { tokens, error }: StreamResult): void {
  const { journal, log, now } = services
  const { draft, endpoint } = chat
  const { open, nodeId, startedAt } = row
  services.keyMeters.spend(draft.keyId, tokens)
  if (!open) return
  const settle = async () => {
    await open.written
    const owner = nodeId === undefined ? undefined : await ownerOfNode(services, endpoint.price_micro, nodeId)
    const ended = now()
    const outcome =
      error === undefined
        ? {
            status: 'succeeded' as const,
            result: null,
            inferenceTimeMs: ended.getTime() - startedAt.getTime(),
            modelState: draft.modelState ?? 'resident',
            tokens,
          }
        : { status: 'failed' as const, error }
    const task = { id: draft.taskId, account_id: draft.accountId, price_micro: endpoint.price_micro }
    await journal.settle(
      taskRepository.settlementOf(task, outcome, {
        now: ended,
        ...(nodeId && { nodeId }),
        ownerAccountId: owner,
      }),
    )
  }
  journal.keep(
    settle().catch((err: unknown) => emit(log, 'task.stream_close_failed', { err, task_id: draft.taskId })),
  )
}
