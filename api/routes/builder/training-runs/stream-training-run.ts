import Type from 'typebox'
import { invalid } from '../../../../domain/errors.ts'
import {
  FeedCursor,
  STREAMED_TYPES,
  type StreamedType,
  TrainingRunParams,
} from '../../../../schemas/training-run.ts'
import { HANDLED } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { decodeFeedCursor } from './feed-cursor.ts'
import { followRun } from './follow-run.ts'
import { requireRun } from './require-run.ts'

export const streamTrainingRun = route({
  operationId: 'streamTrainingRun',
  summary: 'Stream a training run: log, metrics, progress, events and status as they arrive',
  method: 'GET',
  path: '/training/runs/{run_id}/stream',
  auth: 'api-key',
  params: TrainingRunParams,
  query: Type.Object({
    after: Type.Optional(FeedCursor),
    types: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: `Types to send, separated by commas: ${STREAMED_TYPES.join(', ')}. All types when absent.`,
      }),
    ),
  }),
  headers: Type.Object({ 'last-event-id': Type.Optional(FeedCursor) }),
  success: {
    status: 200,
    contentType: 'text/event-stream',
    description: 'Server-sent events. The last one is `done`, whose data is the run.',
  },
  errors: ['not_found', 'validation_failed', 'rate_limited'],

  async handler({ caller, params, query, headers, res, signal }, services) {
    using access = services.keyStreams.watch(caller)
    const run = await requireRun(services.db, caller.accountId, params.run_id)
    // A reconnecting browser repeats the original URL and sends its position in the header.
    const last = headers['last-event-id']
    const after =
      last !== undefined
        ? decodeFeedCursor(run.id, last, ['header', 'Last-Event-ID'])
        : query.after !== undefined
          ? decodeFeedCursor(run.id, query.after, ['query', 'after'])
          : 0
    const types = query.types === undefined ? STREAMED_TYPES : readTypes(query.types)
    using watch = services.runFollowers.follow(caller.accountId, run.id)
    await followRun(services, {
      accountId: caller.accountId,
      runId: run.id,
      after,
      types,
      watch,
      res,
      signal,
      ended: access.ended,
    })
    return HANDLED
  },
})

function readTypes(text: string): StreamedType[] {
  const names = text.split(',').map((name) => name.trim())
  const wrong = names.find((name) => !STREAMED_TYPES.some((type) => type === name))
  if (wrong === undefined) return STREAMED_TYPES.filter((type) => names.includes(type))
  throw invalid(
    ['query', 'types'],
    `contains ${JSON.stringify(wrong)}; the valid types are ${STREAMED_TYPES.join(', ')}`,
  )
}
