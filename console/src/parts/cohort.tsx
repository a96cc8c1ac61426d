import { Alert, Stack, Text } from '@mantine/core'
import { bytes, number, seconds, shortId } from '../format.ts'
import type { Cohort as CohortView, CohortEdge, CohortStage } from '../types.ts'
import { useApi } from '../use-api.ts'
import { useMe } from '../use-may.ts'
import { DataTable } from './data-table.tsx'
import { Facts } from './facts.tsx'
import { PageLink } from './link.tsx'
import { Loading, Panel } from './page.tsx'
import { State, StateNote } from './state.tsx'
import { useWorkflow } from './temporal-link.tsx'

/** The stages and the hand-overs of a task that is a cohort. */
export function Cohort({ taskId, isOpen }: { taskId: string; isOpen: boolean }) {
  const account = useMe().data?.account.id
  const { data, error } = useApi<CohortView>(account ? `/api/v1/tasks/${taskId}/cohort` : null, {
    every: isOpen ? 2_000 : false,
    headers: { 'x-account-id': account ?? '' },
  })
  const workflow = useWorkflow(data && { kind: 'cohort', id: data.cohort_id })
  if (!data) return <Loading error={error} what="cohort" />
  return (
    <Panel title={data.name ? `Cohort ${data.name}` : 'Cohort'}>
      <Stack>
        <StateNote as="cohort" of={data.status} why={data.error?.message} />
        {data.waiting_for && (
          <Alert role="note" color="yellow" variant="outline" title="Waiting">
            {data.waiting_for}
          </Alert>
        )}
        <Text size="sm" component="div">
          <State as="cohort" of={data.status} /> {seconds(data.elapsed_ms / 1_000)} of about{' '}
          {seconds(data.estimated_latency_ms / 1_000)} planned; {number(data.cost_credits)} credits.
        </Text>
        <Facts of={workflow} />
        <Stages of={data.stages} />
        {data.edges.length > 0 && <Edges of={data.edges} />}
      </Stack>
    </Panel>
  )
}

const ms = (value: number | null): string => (value === null ? '–' : `${number(Math.round(value))} ms`)

function Stages({ of }: { of: readonly CohortStage[] }) {
  return (
    <DataTable
      caption="stages"
      rows={of}
      idOf={({ stage_id }) => stage_id}
      empty="No stages."
      columns={[
        { head: 'Stage', cell: ({ stage_id }) => stage_id },
        {
          head: 'State',
          state: ({ status }) => ({ as: 'stage', of: status }),
          cell: ({ error }) => error && <Text size="xs">{error.message}</Text>,
        },
        {
          head: 'Endpoint',
          cell: ({ endpoint_id, model_name }) => (
            <PageLink to="/endpoints/$endpointId" params={{ endpointId: endpoint_id }}>
              {model_name ?? shortId(endpoint_id)}
            </PageLink>
          ),
        },
        { head: 'Node', cell: ({ node_name, node_id }) => node_name ?? (node_id ? shortId(node_id) : '–') },
        { head: 'Attempt', align: 'right', cell: ({ attempt }) => attempt },
        { head: 'Waited', align: 'right', cell: ({ wait_ms }) => ms(wait_ms) },
        { head: 'Loaded', align: 'right', cell: ({ load_ms }) => ms(load_ms) },
        { head: 'Ran', align: 'right', cell: ({ run_ms }) => ms(run_ms) },
      ]}
    />
  )
}

function Edges({ of }: { of: readonly CohortEdge[] }) {
  return (
    <DataTable
      caption="hand-overs"
      rows={of}
      idOf={({ edge_id }) => edge_id}
      empty="No hand-overs."
      columns={[
        { head: 'Hand-over', cell: ({ from, to }) => `${from.stage_id} → ${to.stage_id}` },
        {
          head: 'State',
          state: ({ state }) => ({ as: 'edge', of: state }),
          cell: ({ failure }) => failure && <Text size="xs">{failure.replaceAll('_', ' ')}</Text>,
        },
        { head: 'Of', cell: ({ kind }) => kind.replaceAll('_', ' ') },
        { head: 'Transport', cell: ({ transport, mode }) => (transport ? `${transport}, ${mode}` : '–') },
        { head: 'Attempt', align: 'right', cell: ({ attempt }) => attempt },
        { head: 'Size', align: 'right', cell: ({ bytes: size }) => (size === null ? '–' : bytes(size)) },
        { head: 'Took', align: 'right', cell: ({ transfer_ms }) => ms(transfer_ms) },
      ]}
    />
  )
}
