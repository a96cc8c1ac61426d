import { Stack, Text } from '@mantine/core'
import { BUILDER } from '../api.ts'
import { number } from '../format.ts'
import type { Scaling } from '../types.ts'
import { useApi } from '../use-api.ts'
import { useMay } from '../use-may.ts'
import { DataTable } from './data-table.tsx'
import { Facts, Time } from './facts.tsx'
import { CopiesForm } from './forms/copies-form.tsx'
import { Loading, Panel } from './page.tsx'

/** The model copies of one of this account's endpoints, and why there are that many. */
export function Copies({ endpointId }: { endpointId: string }) {
  const { data, error } = useApi<Scaling>(`${BUILDER}/endpoints/${endpointId}/scaling`)
  const mayChange = useMay('admin')
  return (
    <Panel title="Copies">
      {data ? (
        <Stack>
          <Facts of={factsOf(data)} />
          {mayChange && <CopiesForm of={data} />}
          <Changes of={data.changes} />
        </Stack>
      ) : (
        <Loading error={error} what="copies" />
      )}
    </Panel>
  )
}

function factsOf(scaling: Scaling) {
  const { copies, missing, min, max, schedule, quota } = scaling
  return {
    Now: `${number(copies.wanted)} wanted, ${number(copies.loaded)} loaded, ${number(copies.loading)} loading`,
    ...(missing !== null && { 'Reason for fewer': missing }),
    'At least': number(min),
    'At most': number(max),
    Target: formatTarget(scaling),
    'Idle copies': formatIdleTimeout(scaling),
    Schedule: schedule.length === 0 ? 'none' : <Schedule of={schedule} />,
    Quota: `This account reserves ${number(quota.reserved)} of ${number(quota.copies)} copies.`,
  }
}

function formatTarget({ target_in_flight, target_wait_ms }: Scaling): string {
  if (target_in_flight !== null) return `${number(target_in_flight)} requests for each copy`
  return target_wait_ms === null
    ? 'as many requests for each copy as the model serves at once'
    : `${number(target_wait_ms)} ms of waiting`
}

function formatIdleTimeout({ idle_timeout_s }: Scaling): string {
  if (idle_timeout_s === null) return 'are unloaded after the idle timeout of their node'
  return idle_timeout_s === 0 ? 'stay loaded' : `are unloaded after ${number(idle_timeout_s)} s`
}

const Schedule = ({ of }: { of: Scaling['schedule'] }) =>
  of.map(({ cron, timezone, min }) => (
    <div key={`${cron} ${timezone}`}>
      <span className="mono">{cron}</span> {timezone}: at least {number(min)}
    </div>
  ))

const Changes = ({ of }: { of: Scaling['changes'] }) => (
  <DataTable
    caption="changes to copies"
    rows={of}
    idOf={({ at, from, to }) => `${at} ${from} ${to}`}
    empty={<Text size="sm">The number of copies has not changed yet.</Text>}
    columns={[
      { head: 'When', cell: ({ at }) => <Time at={at} /> },
      { head: 'Copies', cell: ({ from, to }) => `${number(from)} → ${number(to)}` },
      { head: 'Why', cell: ({ reason }) => reason },
    ]}
  />
)
