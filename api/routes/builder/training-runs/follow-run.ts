import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import * as feedRepository from '../../../../db/repositories/training/feed.ts'
import type { FeedEntry } from '../../../../db/repositories/training/feed.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { JobView } from '../../../../db/repositories/training/jobs.ts'
import { isTerminal } from '../../../../domain/training/training-run.ts'
import type { StreamedType } from '../../../../schemas/training-run.ts'
import type { Watch } from '../../../gateway/background/watches.ts'
import { EventStreamWriter, KEY_ENDED } from '../../../http/event-stream.ts'
import type { Services } from '../../../services.ts'
import { encodeFeedCursor } from './feed-cursor.ts'
import { showRun } from './show-run.ts'

/** Maximum events in memory per stream; a slow client gets the rest from the database. */
const PAGE = { limit: 1_000, maxBytes: 256 * 1024 } as const
const RETRY_DELAY_MS = 2_000
/** A lost NOTIFY delays entries by at most this time. */
const REREAD_INTERVAL_MS = 5_000
/** The read interval for a run that reports continuously. */
const READ_INTERVAL_MS = 100
/**
 * A run's last log lines arrive over a different connection than the report that it has ended, and may arrive this much
 * later.
 */
const LAST_LOGS_DELAY_MS = 2_000
/** The stream ends after this time, so that a reconnecting client's key and access are checked again. */
const MAX_DURATION_MS = 60 * 60_000

interface RunStreamOptions {
  accountId: string
  runId: string
  after: number
  types: readonly StreamedType[]
  watch: Watch
  res: ServerResponse
  /** Aborts when the client disconnects. */
  signal: AbortSignal
  /** Aborts when the client's key is revoked or expires. */
  ended: AbortSignal
}

/**
 * Streams a run until it ends, the client disconnects, its key is revoked or expires, or the gateway stops. Sends
 * `done` only when the run has ended.
 */
export async function followRun(services: Services, following: RunStreamOptions): Promise<void> {
  const { db, now, stopping } = services
  const { accountId, runId, types, watch, res, ended } = following
  const signal = AbortSignal.any([following.signal, stopping.signal, ended])
  const writer = new EventStreamWriter(res, signal)
  const until = performance.now() + MAX_DURATION_MS
  const quietMs = services.config.HEARTH_STREAM_KEEPALIVE_S * 1_000 || Number.POSITIVE_INFINITY
  let position = following.after
  await writer.open(RETRY_DELAY_MS)
  let spokenAt = performance.now()

  while (!signal.aborted && performance.now() < until) {
    // Read the status before the entries, so that no entry written before the run ended is missed.
    const run = await jobRepository.findOwnJob(db, accountId, runId)
    if (!run) break
    const entries = await feedRepository.listFeed(db, runId, { after: position, types, ...PAGE })
    const last = entries.at(-1)
    if (last) {
      await writer.send(
        entries.map((entry) => ({ ...present(entry), id: encodeFeedCursor(runId, entry.place) })),
      )
      position = last.place
      spokenAt = performance.now()
      await pause(READ_INTERVAL_MS, signal, entries.length)
      continue
    }
    const lateMs = lateness(run, now())
    if (lateMs <= 0) {
      await writer.send([
        { event: 'done', id: encodeFeedCursor(runId, position), data: await showRun(db, run) },
      ])
      break
    }
    const silentMs = quietMs - (performance.now() - spokenAt)
    if (silentMs <= 0) {
      await writer.comment('keep-alive')
      spokenAt = performance.now()
      continue
    }
    await watch.next(Math.min(lateMs, silentMs, REREAD_INTERVAL_MS), signal)
  }
  writer.end(ended.aborted ? KEY_ENDED : undefined)
}

/** Pauses after a page that is not full, because the stream has then caught up. */
async function pause(ms: number, signal: AbortSignal, entries: number): Promise<void> {
  if (entries < PAGE.limit) await sleep(ms, undefined, { signal }).catch(() => {})
}

/** Returns how long new entries of the run may still arrive, in milliseconds. */
function lateness({ status, completed_at }: JobView, now: Date): number {
  if (!isTerminal(status)) return Number.POSITIVE_INFINITY
  return completed_at === null ? 0 : completed_at.getTime() + LAST_LOGS_DELAY_MS - now.getTime()
}

function present(entry: FeedEntry): { event: StreamedType; data: object } {
  const timestamp = entry.at?.toISOString()
  switch (entry.type) {
    case 'log':
    case 'event':
      return { event: entry.type, data: { timestamp, ...entry.data } }
    case 'metric': {
      const { eval_loss, eval_perplexity, ...losses } = entry.data
      const data = {
        timestamp,
        ...losses,
        ...(eval_loss !== null && { eval_loss }),
        ...(eval_perplexity !== null && { eval_perplexity }),
      }
      return { event: entry.type, data }
    }
    case 'status': {
      const { status, attempt, paused, reason, since } = entry.data
      const isWaiting = reason !== null && since !== null && !isTerminal(status)
      const waiting = isWaiting ? { reason, since: new Date(since).toISOString() } : null
      return { event: entry.type, data: { status, attempt, paused: paused && !isTerminal(status), waiting } }
    }
    case 'progress':
      return { event: entry.type, data: entry.data }
  }
}
