import type { Kysely } from 'kysely'
import Type from 'typebox'
import { cursorScope } from '../../../../db/keyset.ts'
import * as feedRepository from '../../../../db/repositories/training/feed.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import type { LogCursor } from '../../../../db/repositories/training/job-records.ts'
import type { Database } from '../../../../db/tables.ts'
import { invalid } from '../../../../domain/errors.ts'
import { FeedCursor, TrainingRunLogs, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { decodeFeedCursor, encodeFeedCursor } from './feed-cursor.ts'
import { requireRun } from './require-run.ts'

const DEFAULT_LINES = 5_000
const MAX_PAGE_BYTES = 1024 * 1024

export const getTrainingRunLogs = route({
  operationId: 'getTrainingRunLogs',
  summary: "Get the newest lines of a training run's log, or the lines after a cursor",
  method: 'GET',
  path: '/training/runs/{run_id}/logs',
  auth: 'api-key',
  isLong: true,
  params: TrainingRunParams,
  query: Type.Object({
    after: Type.Optional(FeedCursor),
    cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20_000, default: DEFAULT_LINES })),
  }),
  success: { status: 200, schema: TrainingRunLogs },
  errors: ['not_found', 'validation_failed'],

  async handler({ caller, params, query: { limit = DEFAULT_LINES, cursor, after } }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    if (after !== undefined) {
      if (cursor !== undefined) throw invalid(['query', 'after'], 'cannot be combined with cursor')
      return linesAfter(db, run.id, decodeFeedCursor(run.id, after, ['query', 'after']), limit)
    }
    const before = cursor === undefined ? undefined : decodeLogCursor(run.id, cursor)
    const lines = await jobRecordRepository.listJobLogs(db, run.id, { limit, before })
    const [oldest] = lines
    const isMore = oldest !== undefined && (await jobRecordRepository.hasJobLogs(db, run.id, oldest))
    const newest = lines.reduce((last, { place }) => Math.max(last, place), 0)
    return {
      run_id: run.id,
      logs: lines.map(({ created_at, message }) => ({ timestamp: created_at.toISOString(), message })),
      next_cursor: isMore ? encodeLogCursor(run.id, oldest) : null,
      after: before === undefined ? encodeFeedCursor(run.id, newest) : null,
    }
  },
})

/** Returns lines in order of arrival, which differs from their numerical order if a line arrived late. */
async function linesAfter(
  db: Kysely<Database>,
  run_id: string,
  after: number,
  limit: number,
): Promise<TrainingRunLogs> {
  const lines = await feedRepository.listLines(db, run_id, { after, limit, maxBytes: MAX_PAGE_BYTES })
  return {
    run_id,
    logs: lines.map(({ at, data }) => ({ timestamp: at.toISOString(), message: data.message })),
    next_cursor: null,
    after: encodeFeedCursor(run_id, lines.at(-1)?.place ?? after),
  }
}

const encodeLogCursor = (jobId: string, { attempt, seq }: LogCursor): string =>
  Buffer.from(`${cursorScope('logs', jobId)}.${attempt}.${seq}`).toString('base64url')

function decodeLogCursor(jobId: string, cursor: string): LogCursor {
  const [scope, attempt, seq] = Buffer.from(cursor, 'base64url').toString().split('.')
  const position = { attempt: Number(attempt), seq: Number(seq) }
  const isPlace = [position.attempt, position.seq].every(
    (part) => Number.isInteger(part) && Math.abs(part) < 2 ** 31,
  )
  if (scope === cursorScope('logs', jobId) && isPlace) return position
  throw invalid(['query', 'cursor'], 'unknown cursor', 'cursor')
}
