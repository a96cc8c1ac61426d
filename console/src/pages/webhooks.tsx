import { Alert, Group } from '@mantine/core'
import { useState } from 'react'
import { BUILDER, HearthError } from '../api.ts'
import { Choice, StateChoice } from '../parts/choice.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { Time } from '../parts/facts.tsx'
import { EVENTS } from '../parts/forms/webhook-form.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page, Panel } from '../parts/page.tsx'
import { WebhookEndpoints } from '../parts/webhook-endpoints.tsx'
import type { Delivery, WebhookEndpoint } from '../types.ts'
import { usePages, useSortedPages } from '../use-api.ts'

export function Webhooks() {
  const endpoints = usePages<'webhook_endpoints', WebhookEndpoint>(
    `${BUILDER}/webhook-endpoints`,
    'webhook_endpoints',
  )
  if (endpoints.error instanceof HearthError && endpoints.error.status === 404)
    return (
      <Page title="Webhooks">
        <Alert role="note" variant="outline" color="gray" title="Webhooks are off">
          This platform does not send events to other systems. An operator can enable webhooks with
          HEARTH_FEATURES=webhooks.
        </Alert>
      </Page>
    )
  return (
    <Page title="Webhooks" lead="Sends your account's events to your own URLs as signed requests.">
      <WebhookEndpoints of={endpoints} />
      <Deliveries />
    </Page>
  )
}

function Deliveries() {
  const [filter, setFilter] = useState<{ status?: string | null; event_type?: string | null }>({})
  const path = `${BUILDER}/webhook-deliveries`
  const deliveries = useSortedPages<'deliveries', Delivery>(path, 'deliveries', filter)
  return (
    <Panel
      title="Deliveries"
      actions={
        <Group gap="xs">
          <StateChoice
            as="delivery"
            value={filter.status}
            onChange={(status) => setFilter((now) => ({ ...now, status }))}
          />
          <Choice
            label="Event"
            any="Every event"
            of={EVENTS}
            value={filter.event_type}
            onChange={(event_type) => setFilter((now) => ({ ...now, event_type }))}
            w={230}
          />
        </Group>
      }
    >
      <DataTable
        caption="deliveries"
        {...deliveries}
        idOf={({ delivery_id }) => delivery_id}
        empty={
          filter.status || filter.event_type ? 'No deliveries match.' : 'Nothing has been delivered yet.'
        }
        columns={[
          {
            head: 'Event',
            cell: ({ delivery_id, event_type }) => (
              <PageLink to="/webhooks/$deliveryId" params={{ deliveryId: delivery_id }}>
                {event_type}
              </PageLink>
            ),
          },
          { head: 'State', state: ({ status }) => ({ as: 'delivery', of: status }) },
          { head: 'Attempts', align: 'right', cell: ({ attempt_count }) => attempt_count },
          { head: 'Next attempt', cell: ({ next_attempt_at }) => <Time at={next_attempt_at} /> },
          { head: 'Created', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
      />
    </Panel>
  )
}
