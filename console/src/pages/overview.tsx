import { Alert, SimpleGrid, Stack, Text } from '@mantine/core'
import { ADMIN, BUILDER } from '../api.ts'
import { number } from '../format.ts'
import { Failure, Page, Panel } from '../parts/page.tsx'
import { RunTable } from '../parts/runs/run-table.tsx'
import { useKey } from '../session.ts'
import type { Attention, QueueStats, Run } from '../types.ts'
import { useApi, usePages } from '../use-api.ts'

export function Overview() {
  const stats = useApi<QueueStats>(`${BUILDER}/queue/stats`)
  const runs = usePages<'runs', Run>(`${BUILDER}/training/runs`, 'runs', { limit: 8 })
  const { data } = stats
  return (
    <Page title="Overview">
      <NeedsAttention />
      {stats.error && <Failure error={stats.error} what="numbers" />}
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        <Figure label="Tasks queued or running" value={data?.queue_size} />
        <Figure
          label="Nodes that accept work"
          value={data?.workers}
          note={data?.workers === 0 ? 'Start one: docs/deployment.md' : undefined}
        />
        <Figure label="Tasks succeeded" value={data?.metrics.succeeded} />
        <Figure label="Tasks failed" value={data && data.metrics.failed + data.metrics.expired} />
      </SimpleGrid>
      <Panel title="Latest runs">
        <RunTable rows={runs.rows?.slice(0, 8)} error={runs.error} />
      </Panel>
    </Page>
  )
}

const COLOURS = { critical: 'red', warning: 'yellow', notice: 'blue' } as const

/**
 * Shows what needs an operator's attention, once the tab has the operations key. The gateway caches the response for 2
 * s.
 */
function NeedsAttention() {
  const key = useKey('operations')
  const { data } = useApi<{ attention: Attention[] }>(key === null ? null : `${ADMIN}/overview`)
  if (!data) return null
  return (
    <Panel title="Needs attention">
      {data.attention.length === 0 && <Text>Nothing: all is well.</Text>}
      <Stack gap="xs">
        {data.attention.map(({ kind, severity, message }) => (
          <Alert
            key={kind}
            role="note"
            variant="outline"
            color={COLOURS[severity]}
            title={kind.replaceAll('_', ' ')}
          >
            {message}
          </Alert>
        ))}
      </Stack>
    </Panel>
  )
}

function Figure({
  label,
  value,
  note,
}: {
  label: string
  value: number | undefined
  note?: string | undefined
}) {
  return (
    <Panel title={label}>
      <Text size="xl" fw={700}>
        {value === undefined ? '–' : number(value)}
      </Text>
      {note && <Text size="sm">{note}</Text>}
    </Panel>
  )
}
