import { Group, Progress, Text } from '@mantine/core'
import { seconds } from '../../format.ts'
import type * as types from '../../types.ts'

/** The progress of a run, as a bar and as text. */
export function RunProgress({ of: { pct, step, of, eta_s } }: { of: types.RunProgress }) {
  return (
    <Group gap="sm" wrap="nowrap">
      <Progress value={pct} flex={1} maw={480} aria-label={`${pct} % done`} />
      <Text size="sm">
        {step} of {of}
        {eta_s !== null && `, about ${seconds(eta_s)} to go`}
      </Text>
    </Group>
  )
}
