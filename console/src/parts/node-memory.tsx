import { Group, SegmentedControl, Text } from '@mantine/core'
import { useState } from 'react'
import { ADMIN, withQuery } from '../api.ts'
import type { NodeMemory } from '../types.ts'
import { useApi } from '../use-api.ts'
import { Chart } from './chart.tsx'
import { memoryCurves, type MemoryMeasure } from './memory-curves.ts'
import { Loading, Panel } from './page.tsx'

const WINDOWS = ['hour', 'day', 'week'].map((value) => ({ value, label: `Last ${value}` }))
const MEASURES = [
  { value: 'vram', label: 'VRAM' },
  { value: 'ram', label: 'RAM' },
]
const INTERVAL_MS = 60_000

/** The measured memory of a node's model servers and runs over the last hour, day or week. */
export function NodeMemoryChart({ id }: { id: string }) {
  const [window, setWindow] = useState('hour')
  const [chosen, setChosen] = useState<MemoryMeasure>('vram')
  const { data, error } = useApi<NodeMemory>(withQuery(`${ADMIN}/nodes/${id}/memory`, { window }), {
    every: INTERVAL_MS,
  })
  const hasVram = data?.node.some(({ vram_max_mb }) => vram_max_mb !== undefined) ?? false
  const measure = hasVram ? chosen : 'ram'
  return (
    <Panel
      title="Measured memory"
      actions={
        <Group gap="xs">
          {hasVram && (
            <SegmentedControl
              aria-label="Memory"
              data={MEASURES}
              value={measure}
              onChange={(value) => setChosen(value as MemoryMeasure)}
              size="xs"
            />
          )}
          <SegmentedControl
            aria-label="Window"
            data={WINDOWS}
            value={window}
            onChange={setWindow}
            size="xs"
          />
        </Group>
      }
    >
      {data ? (
        <MemoryLines of={data} measure={measure} />
      ) : (
        <Loading error={error} what="memory of the node" />
      )}
    </Panel>
  )
}

function MemoryLines({ of, measure }: { of: NodeMemory; measure: MemoryMeasure }) {
  const { x, curves } = memoryCurves(of, measure)
  if (x.length === 0) return <Text c="dimmed">No memory was measured in the last {of.window}.</Text>
  const label = `Highest ${measure.toUpperCase()} of the node and its processes in the last ${of.window}`
  return (
    <>
      <Chart label={label} xName="Time" x={x} curves={curves} isTime />
      <Text size="xs" c="dimmed">
        Peaks in GB of the processes that used the most. Servers in containers are not measured.
      </Text>
    </>
  )
}
