import { Button, Group } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { BUILDER, client } from '../api.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import type { DeliveryDetail } from '../types.ts'
import { useAction } from '../use-action.ts'
import { useApi } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const OPEN = new Set(['pending', 'delivering', 'retrying'])

export function DeliveryPage() {
  const { deliveryId } = useParams({ from: '/webhooks/$deliveryId' })
  const { data, error } = useApi<DeliveryDetail>(`${BUILDER}/webhook-deliveries/${deliveryId}`, {
    every: 2_000,
  })
  const { run, isBusy, problem } = useAction()
  const navigate = useNavigate()
  const maySend = useMay('operator')
  if (!data) return <Loading error={error} what="delivery" />

  async function redeliver() {
    const { delivery_id } = await client().webhooks.redeliver(deliveryId)
    await navigate({ to: '/webhooks/$deliveryId', params: { deliveryId: delivery_id } })
  }
  return (
    <Page
      title={data.event_type}
      lead={<State as="delivery" of={data.status} />}
      actions={
        maySend &&
        !OPEN.has(data.status) && (
          <Button variant="default" loading={isBusy} onClick={() => void run(redeliver)}>
            Deliver again
          </Button>
        )
      }
    >
      {problem && <Failure error={problem} what="delivery" />}
      <StateNote as="delivery" of={data.status} />
      <Panel title="Attempts">
        <DataTable
          caption="attempts"
          rows={data.attempts}
          idOf={({ attempt }) => String(attempt)}
          empty="No attempts yet."
          columns={[
            { head: 'Attempt', cell: ({ attempt }) => attempt },
            { head: 'Outcome', state: ({ outcome }) => ({ as: 'attempt', of: outcome ?? 'open' }) },
            {
              head: 'Answer',
              cell: ({ status_class, error_code }) => (
                <Group gap="xs">
                  {status_class ?? 'none'} {error_code && <span className="mono">{error_code}</span>}
                </Group>
              ),
            },
            {
              head: 'Took',
              align: 'right',
              cell: ({ duration_ms }) => (duration_ms === null ? '–' : `${duration_ms} ms`),
            },
            { head: 'Started', cell: ({ started_at }) => <Time at={started_at} /> },
          ]}
        />
      </Panel>
      <Panel title="Details">
        <Facts
          of={{
            Id: <span className="mono">{data.delivery_id}</span>,
            Generation: data.delivery_generation,
            'Redelivery of': data.redelivery_of_delivery_id ? (
              <PageLink to="/webhooks/$deliveryId" params={{ deliveryId: data.redelivery_of_delivery_id }}>
                <span className="mono">{data.redelivery_of_delivery_id}</span>
              </PageLink>
            ) : (
              '–'
            ),
            'Next attempt': <Time at={data.next_attempt_at} />,
            Created: <Time at={data.created_at} />,
          }}
        />
      </Panel>
    </Page>
  )
}
