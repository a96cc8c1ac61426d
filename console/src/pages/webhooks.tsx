import { Alert, Button, Group } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiFailure, BUILDER, call } from '../api.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State } from '../parts/state.tsx'
import type { Delivery, WebhookEndpoint } from '../types.ts'
import { useApi, usePages } from '../use-api.ts'
import { useMay } from '../use-may.ts'

export function Webhooks() {
  const queries = useQueryClient()
  const [problem, setProblem] = useState<Error>()
  const endpoints = usePages<'webhook_endpoints', WebhookEndpoint>(
    `${BUILDER}/webhook-endpoints`,
    'webhook_endpoints',
  )
  const maySend = useMay('operator')
  const deliveries = usePages<'deliveries', Delivery>(`${BUILDER}/webhook-deliveries`, 'deliveries')
  if (endpoints.error instanceof ApiFailure && endpoints.error.status === 404)
    return (
      <Page title="Webhooks">
        <Alert role="note" variant="outline" color="gray" title="Webhooks are off">
          {endpoints.error.message}
        </Alert>
      </Page>
    )

  const test = (id: string) =>
    call(`${BUILDER}/webhook-endpoints/${id}/test`, { method: 'POST', body: {} }).then(
      () => queries.invalidateQueries(),
      setProblem,
    )
  return (
    <Page title="Webhooks">
      {problem && <Failure error={problem} what="change" />}
      <Panel title="Endpoints">
        <DataTable
          caption="webhook endpoints"
          rows={endpoints.rows}
          error={endpoints.error}
          more={endpoints}
          idOf={({ endpoint_id }) => endpoint_id}
          empty="No endpoints yet; POST /webhooks/endpoints adds one (docs/webhooks.md)."
          columns={[
            { head: 'Name', cell: ({ name }) => name },
            { head: 'Receiver', cell: ({ url_origin }) => <span className="mono">{url_origin}</span> },
            {
              head: 'State',
              cell: ({ enabled, disabled_reason, verification_status, verification_error }) =>
                enabled ? (
                  <State
                    of={verification_status}
                    {...(verification_error && { words: `Not verified: ${verification_error.message}` })}
                  />
                ) : (
                  <State of="disabled" words={`Off: ${disabled_reason ?? 'by its owner'}`} />
                ),
            },
            { head: 'Events', align: 'right', cell: ({ event_types }) => event_types.length },
            ...(maySend
              ? [
                  {
                    head: 'Try',
                    cell: ({ endpoint_id, name }: WebhookEndpoint) => (
                      <Button
                        size="compact-sm"
                        variant="default"
                        onClick={() => void test(endpoint_id)}
                        aria-label={`Send a test event to ${name}`}
                      >
                        Send a test
                      </Button>
                    ),
                  },
                ]
              : []),
          ]}
        />
      </Panel>
      <Panel title="Deliveries">
        <DataTable
          caption="deliveries"
          rows={deliveries.rows}
          error={deliveries.error}
          more={deliveries}
          idOf={({ delivery_id }) => delivery_id}
          empty="Nothing has been delivered yet."
          columns={[
            {
              head: 'Event',
              cell: ({ delivery_id, event_type }) => (
                <PageLink to="/webhooks/$deliveryId" params={{ deliveryId: delivery_id }}>
                  {event_type}
                </PageLink>
              ),
            },
            { head: 'State', cell: ({ status }) => <State of={status} /> },
            { head: 'Attempts', align: 'right', cell: ({ attempt_count }) => attempt_count },
            { head: 'Next attempt', cell: ({ next_attempt_at }) => <Time at={next_attempt_at} /> },
            { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
          ]}
        />
      </Panel>
    </Page>
  )
}

export function DeliveryPage() {
  const { deliveryId } = useParams({ from: '/webhooks/$deliveryId' })
  const path = `${BUILDER}/webhook-deliveries/${deliveryId}`
  const { data, error } = useApi<Delivery>(path, { every: 2_000 })
  const [problem, setProblem] = useState<Error>()
  const navigate = useNavigate()
  const maySend = useMay('operator')
  if (!data) return <Loading error={error} what="delivery" />

  async function redeliver() {
    const { delivery_id } = await call<Delivery>(`${path}/redeliver`, {
      method: 'POST',
      body: {},
      headers: { 'idempotency-key': crypto.randomUUID() },
    })
    await navigate({ to: '/webhooks/$deliveryId', params: { deliveryId: delivery_id } })
  }
  return (
    <Page
      title={data.event_type}
      lead={<State of={data.status} />}
      actions={
        maySend && (
          <Button variant="default" onClick={() => void redeliver().catch(setProblem)}>
            Deliver again
          </Button>
        )
      }
    >
      {problem && <Failure error={problem} what="delivery" />}
      <Panel title="Attempts">
        <DataTable
          caption="attempts"
          rows={data.attempts}
          idOf={({ attempt }) => String(attempt)}
          empty="No attempt yet."
          columns={[
            { head: 'Attempt', cell: ({ attempt }) => attempt },
            { head: 'Outcome', cell: ({ outcome }) => <State of={outcome ?? 'delivering'} /> },
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
            'Next attempt': <Time at={data.next_attempt_at} />,
            Created: <Time at={data.created_at} />,
          }}
        />
      </Panel>
    </Page>
  )
}
