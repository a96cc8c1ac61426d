import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { call, HearthError, withQuery } from './api.ts'
import { NEWEST } from './parts/data-table.tsx'

/** How often lists are reloaded while their page is visible. */
const LIST_INTERVAL_MS = 4_000

/** Polls a path; `every: false` reads it once. */
export function useApi<T>(
  path: string | null,
  { every = LIST_INTERVAL_MS, headers }: { every?: number | false; headers?: Record<string, string> } = {},
) {
  return useQuery<T>({
    queryKey: [path],
    queryFn: ({ signal }) => call<T>(path ?? '', { signal, ...(headers && { headers }) }),
    enabled: path !== null,
    refetchInterval: every,
    retry: shouldRetry,
    // Never show data of another resource while this one is loading.
    placeholderData: (previous, query) =>
      placeOf(query?.queryKey[0]) === placeOf(path) ? previous : undefined,
  })
}

/** A URL without its query. */
const placeOf = (path: unknown): string => String(path).split('?')[0] ?? ''

/** Calls a method of the client once, and returns its result. */
export function useRead<T>(key: readonly unknown[], read: () => Promise<T>) {
  return useQuery({ queryKey: key, queryFn: read, retry: false, refetchOnWindowFocus: false })
}

/** Reads a list in pages with a cursor. All loaded pages are refreshed together, less often the more there are. */
export function usePages<K extends string, T>(
  path: string,
  name: K,
  query: Record<string, string | number | null | undefined> = {},
) {
  type Page = Record<K, T[]> & { next_cursor: string | null }
  const result = useInfiniteQuery({
    queryKey: [path, query],
    queryFn: ({ pageParam, signal }) =>
      call<Page>(withQuery(path, { limit: 50, ...query, cursor: pageParam }), { signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last: Page) => last.next_cursor,
    refetchInterval: ({ state }) => LIST_INTERVAL_MS * Math.max(1, state.data?.pages.length ?? 1),
    retry: shouldRetry,
  })
  return { ...result, rows: result.data?.pages.flatMap((page) => page[name]) }
}

/**
 * Reads a list in pages, newest first unless a column header selects another order; returns the props for a
 * `DataTable`. `isNamed` is for lists that can also be sorted by name.
 */
export function useSortedPages<K extends string, T>(
  path: string,
  name: K,
  query: Record<string, string | null | undefined> = {},
  { isNamed = false } = {},
) {
  const [sorted, onSort] = useState(NEWEST)
  const order = { order: sorted.order, ...(isNamed && { sort: sorted.by }) }
  const more = usePages<K, T>(path, name, { ...query, ...order })
  return { rows: more.rows, error: more.error, more, sorted, onSort }
}

/** Requests that the API rejects aren't retried, because it would reject them again. */
function shouldRetry(count: number, err: Error): boolean {
  return count < 2 && (!(err instanceof HearthError) || err.status === 0 || err.status >= 500)
}
