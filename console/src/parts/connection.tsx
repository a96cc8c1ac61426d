import { Alert } from '@mantine/core'
import { type QueryCache, useQueryClient } from '@tanstack/react-query'
import { useCallback, useSyncExternalStore } from 'react'
import { HearthError } from '../api.ts'

const isUnanswered = (error: unknown): boolean => error instanceof HearthError && error.status === 0

/** True while the latest request for something on the page has received no response at all. */
const isLost = (cache: QueryCache): boolean =>
  cache
    .getAll()
    .some(
      (query) =>
        query.isActive() && (isUnanswered(query.state.fetchFailureReason) || isUnanswered(query.state.error)),
    )

/** Shows on every page that the platform is unreachable. Nothing else would, because earlier data remains visible. */
export function Connection() {
  const cache = useQueryClient().getQueryCache()
  const subscribe = useCallback((notify: () => void) => cache.subscribe(notify), [cache])
  const lost = useSyncExternalStore(subscribe, () => isLost(cache))
  if (!lost) return null
  return (
    <Alert role="status" color="red" variant="filled" mb="md" title="Connection lost">
      The platform does not respond. This page may be out of date; retrying.
    </Alert>
  )
}
