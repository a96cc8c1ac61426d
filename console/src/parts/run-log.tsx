import { Button, Group, Switch, Text } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { call, withQuery } from '../api.ts'
import { useApi } from '../use-api.ts'
import { Panel } from './page.tsx'

interface Logs {
  logs: { timestamp: string; message: string }[]
  next_cursor: string | null
}
const LINES = 500

/** The newest lines of a run's log. It follows the end until the reader scrolls up, and goes on at the end. */
export function RunLog({ path, isOpen }: { path: string; isOpen: boolean }) {
  const log = useApi<Logs>(`${path}/logs?limit=${LINES}`, { every: isOpen ? 2_000 : 30_000 })
  const [earlier, setEarlier] = useState<Logs>()
  const [isFollowing, setFollowing] = useState(true)
  const place = useRef<HTMLPreElement>(null)
  const newest = log.data?.logs ?? []
  const last = newest.at(-1)

  useEffect(() => {
    const element = place.current
    if (element && isFollowing) element.scrollTop = element.scrollHeight
  }, [isFollowing, last?.timestamp, last?.message, newest.length])

  const cursor = earlier ? earlier.next_cursor : log.data?.next_cursor
  async function showEarlier() {
    const page = await call<Logs>(withQuery(`${path}/logs`, { limit: LINES, cursor }))
    setFollowing(false)
    setEarlier({ logs: [...page.logs, ...(earlier?.logs ?? [])], next_cursor: page.next_cursor })
  }

  return (
    <Panel
      title="Log"
      actions={
        <Group gap="sm">
          {cursor && (
            <Button size="compact-sm" variant="default" onClick={() => void showEarlier()}>
              Earlier lines
            </Button>
          )}
          <Switch
            label="Follow"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
        </Group>
      }
    >
      {newest.length === 0 ? (
        <Text c="dimmed">{isOpen ? 'No lines yet.' : 'This run has no log.'}</Text>
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a region that scrolls has to be reachable by keyboard
        <pre className="log" ref={place} tabIndex={0} role="log" aria-label="Log of the run">
          {[...(earlier?.logs ?? []), ...newest].map(({ timestamp, message }, at) => (
            <div key={`${timestamp} ${at}`}>
              <time dateTime={timestamp}>{timestamp.slice(11, 19)}</time>
              {message}
            </div>
          ))}
        </pre>
      )}
    </Panel>
  )
}
