import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { client } from '../api.ts'
import type { EndpointWithSecret, WebhookEndpoint } from '../types.ts'
import { useAction } from '../use-action.ts'
import { useMay } from '../use-may.ts'
import { CodeText } from './code.tsx'
import { type Column, DataTable } from './data-table.tsx'
import { WebhookForm } from './forms/webhook-form.tsx'
import { Failure, Panel } from './page.tsx'

type EndpointList = Pick<Parameters<typeof DataTable<WebhookEndpoint>>[0], 'rows' | 'error'> &
  NonNullable<Parameters<typeof DataTable<WebhookEndpoint>>[0]['more']>

type RowAction = [words: string, label: string, act: () => void | Promise<void>]

const COLUMNS: readonly Column<WebhookEndpoint>[] = [
  { head: 'Name', cell: ({ name }) => name },
  { head: 'Receiver', cell: ({ url_origin }) => <span className="mono">{url_origin}</span> },
  {
    head: 'State',
    state: ({ enabled, disabled_reason, verification_status, verification_error: error }) =>
      enabled
        ? {
            as: 'receiver',
            of: verification_status,
            words: error ? `Not verified: ${error.message}` : undefined,
          }
        : { as: 'receiver', of: 'disabled', words: `Off: ${disabled_reason ?? 'by its owner'}` },
  },
  {
    head: 'Events',
    cell: ({ event_types }) => <span title={event_types.join('\n')}>{event_types.length}</span>,
  },
  { head: 'Secret ends in', cell: ({ secret_hint }) => <span className="mono">{secret_hint}</span> },
]

/** Lets an account add, test, disable, rotate and remove its webhook endpoints. */
export function WebhookEndpoints({ of }: { of: EndpointList }) {
  const maySend = useMay('operator')
  const mayChange = useMay('admin')
  const { run, problem } = useAction()
  const [made, setMade] = useState<EndpointWithSecret>()
  const [asked, setAsked] = useState<string>()
  const api = client().webhooks

  const rotate = (id: string) => run(async () => setMade(await api.rotateSecret(id, {})))
  const remove = (id: string) => (asked === id ? run(() => api.delete(id)) : setAsked(id))
  const change = {
    head: 'Change',
    cell: ({ endpoint_id: id, name, enabled }: WebhookEndpoint) => {
      const test: RowAction = ['Send a test', `Send a test event to ${name}`, () => run(() => api.test(id))]
      const changes: readonly RowAction[] = [
        ['New secret', `Create a new secret for ${name}`, () => rotate(id)],
        enabled
          ? ['Switch off', `Switch ${name} off`, () => run(() => api.update(id, { enabled: false }))]
          : ['Switch on', `Switch ${name} on`, () => run(() => api.update(id, { enabled: true }))],
        asked === id
          ? [`Remove ${name} permanently`, `Remove ${name} permanently`, () => remove(id)]
          : ['Remove', `Remove ${name}`, () => remove(id)],
      ]
      return (
        <Group gap={4}>
          {[test, ...(mayChange ? changes : [])].map(([words, label, act]) => (
            <Button
              key={label}
              size="compact-sm"
              variant="default"
              aria-label={label}
              onClick={() => void act()}
            >
              {words}
            </Button>
          ))}
        </Group>
      )
    },
  }
  return (
    <Panel title="Receivers">
      <Stack>
        {mayChange && <WebhookForm onMade={setMade} />}
        {made && (
          <Alert role="note" variant="outline" title={`The secret of ${made.name}; it is not shown again`}>
            <Stack gap="xs">
              <CodeText text={made.secret} label="secret" />
              <Text size="sm">
                The receiver checks signatures with it (docs/webhooks.md). After a change, both secrets sign
                for a day.
              </Text>
              <Group>
                <Button size="compact-sm" variant="default" onClick={() => setMade(undefined)}>
                  Forget the secret
                </Button>
              </Group>
            </Stack>
          </Alert>
        )}
        {problem && <Failure error={problem} what="change" />}
        <DataTable
          caption="receivers"
          rows={of.rows}
          error={of.error ?? null}
          more={of}
          idOf={({ endpoint_id }) => endpoint_id}
          empty="No receiver yet."
          columns={maySend ? [...COLUMNS, change] : COLUMNS}
        />
      </Stack>
    </Panel>
  )
}
