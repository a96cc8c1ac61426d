import { Button, Group, Switch, Text } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { client } from '../../api.ts'
import type { RunLogs } from '../../types.ts'
import type { LogLine } from '../../use-run-feed.ts'
import { Failure, Panel } from '../page.tsx'

/** Lines per request. */
export const LINES = 500
/** The page keeps at most this many lines, to limit its memory. */
const MAX_LINES = 5_000

interface RunLogProps {
  runId: string
  /** The newest lines when the page was opened. */
  read: RunLogs | undefined
  /** The lines that have arrived since. */
  live: readonly LogLine[]
  isOpen: boolean
}

/** The newest lines of a run's log. Follows the end until the user loads earlier lines, and resumes at the end. */
export function RunLog({ runId, read, live, isOpen }: RunLogProps) {
  const [earlier, setEarlier] = useState<Pick<RunLogs, 'logs' | 'next_cursor'>>()
  const [problem, setProblem] = useState<Error>()
  const [isFollowing, setFollowing] = useState(true)
  const container = useRef<HTMLPreElement>(null)
  const lines = [...(earlier?.logs ?? []), ...(read?.logs ?? []), ...live]
  const last = lines.at(-1)

  useEffect(() => {
    const element = container.current
    if (element && isFollowing) element.scrollTop = element.scrollHeight
  }, [isFollowing, last])

  const cursor = earlier ? earlier.next_cursor : read?.next_cursor
  async function showEarlier(before: string) {
    const page = await client().runs.logs(runId, { limit: LINES, cursor: before })
    setFollowing(false)
    setEarlier({
      logs: [...page.logs, ...(earlier?.logs ?? [])].slice(0, MAX_LINES),
      next_cursor: page.next_cursor,
    })
  }

  return (
    <Panel
      title="Log"
      actions={
        <Group gap="sm">
          {cursor && (earlier?.logs.length ?? 0) < MAX_LINES && (
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => void showEarlier(cursor).catch(setProblem)}
            >
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
      {problem && <Failure error={problem} what="earlier lines" />}
      {lines.length === 0 ? (
        <Text c="dimmed">{isOpen ? 'No lines yet.' : 'This run has no log.'}</Text>
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a region that scrolls has to be reachable by keyboard
        <pre className="log" ref={container} tabIndex={0} role="log" aria-label="Log of the run">
          {lines.map(({ timestamp, message }, at) => (
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
