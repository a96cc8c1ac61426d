import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import type { RunEvent } from '../../client/index.ts'
import { BUILDER, client } from './api.ts'
import type { Epoch, RunProgress } from './types.ts'

export interface LogLine {
  timestamp: string
  message: string
}
type RunEventData = Extract<RunEvent, { event: 'event' }>['data']

/** The log and the measures of a run since its page was opened. */
export interface RunFeed {
  lines: LogLine[]
  epochs: Epoch[]
  events: RunEventData[]
  progress: RunProgress | null
  attempt: number | null
}

const NOTHING: RunFeed = { lines: [], epochs: [], events: [], progress: null, attempt: null }
/** Limits the lines of a very verbose run in the tab's memory; "Earlier lines" loads the rest. */
const KEPT_LINES = 1_000
/** The minimum interval between renders. */
const DRAW_INTERVAL_MS = 250

/**
 * Follows a run from a position in its log. Each change of its state reloads the run. An ended run is followed until
 * its last event, which may arrive after its end.
 */
export function useRunFeed(runId: string, after: string | null | undefined, isOpen: boolean): RunFeed {
  const [opened, setOpened] = useState('')
  if (isOpen && opened !== runId) setOpened(runId)
  const isFollowed = opened === runId
  const [{ of, feed }, setFeed] = useState({ of: '', feed: NOTHING })
  const cursorKey = `${runId} ${after}`
  const queries = useQueryClient()

  useEffect(() => {
    if (!isFollowed || !after) return
    const control = new AbortController()
    let waiting: RunEvent[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    function draw() {
      const news = waiting
      waiting = []
      timer = undefined
      setFeed((now) => ({ of: cursorKey, feed: extended(now.of === cursorKey ? now.feed : NOTHING, news) }))
      if (news.some(({ event }) => event === 'status' || event === 'done')) void readAgain(queries, runId)
    }
    async function follow(after: string) {
      for await (const event of client().runs.stream(runId, { after }, { signal: control.signal })) {
        waiting.push(event)
        timer ??= setTimeout(draw, DRAW_INTERVAL_MS)
      }
    }
    // The page also polls the run itself, and shows when the gateway is unreachable.
    follow(after).catch(() => {})
    return () => {
      control.abort()
      clearTimeout(timer)
    }
  }, [runId, after, cursorKey, isFollowed, queries])

  const isEnded = isFollowed && !isOpen
  useEffect(() => {
    if (isEnded) void readAgain(queries, runId)
  }, [isEnded, runId, queries])
  return of === cursorKey ? feed : NOTHING
}

const readAgain = (queries: QueryClient, runId: string): Promise<void> =>
  queries.invalidateQueries({ predicate: ({ queryKey: [path] }) => isOf(path, runId) })

const isOf = (path: unknown, runId: string): boolean =>
  typeof path === 'string' && path.startsWith(`${BUILDER}/training/runs/${runId}`)

function extended(feed: RunFeed, news: readonly RunEvent[]): RunFeed {
  const next = { ...feed, lines: [...feed.lines], epochs: [...feed.epochs], events: [...feed.events] }
  for (const { event, data } of news) {
    if (event === 'log') next.lines.push(data)
    else if (event === 'metric') next.epochs.push(data as unknown as Epoch)
    else if (event === 'event') next.events.push(data)
    else if (event === 'progress') next.progress = data
    else if (event === 'status') {
      // Another attempt resumes at an earlier checkpoint, so reload its data.
      if (next.attempt !== null && next.attempt !== data.attempt) next.epochs = []
      next.attempt = data.attempt
    }
  }
  next.lines = next.lines.slice(-KEPT_LINES)
  return next
}

/** Merges the loaded entries with later ones; both may contain the same entries. */
export function joined<T>(read: readonly T[], later: readonly T[], keyOf: (item: T) => unknown): T[] {
  if (later.length === 0) return [...read]
  return [...new Map([...read, ...later].map((item) => [keyOf(item), item])).values()]
}
