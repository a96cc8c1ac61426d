import { Alert, Button, Group, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { ADMIN, BUILDER, call } from '../api.ts'
import { bytes, number } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { OperatorGate } from '../parts/operator-gate.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State } from '../parts/state.tsx'
import type { Account, KillSwitch, NodeView, QueueStats, TaskAudit } from '../types.ts'
import { useApi, usePages } from '../use-api.ts'

export const Nodes = () => (
  <Page title="Nodes">
    <OperatorGate>
      <NodeList />
    </OperatorGate>
  </Page>
)

function NodeList() {
  const queries = useQueryClient()
  const [problem, setProblem] = useState<Error>()
  const nodes = usePages<'nodes', NodeView>(`${ADMIN}/nodes`, 'nodes')
  const change = (id: string, action: 'drain' | 'resume') =>
    call(`${ADMIN}/nodes/${id}/${action}`, { method: 'POST', body: {} }).then(
      () => queries.invalidateQueries(),
      setProblem,
    )
  return (
    <>
      {problem && <Failure error={problem} what="change" />}
      <DataTable
        caption="nodes"
        rows={nodes.rows}
        error={nodes.error}
        more={nodes}
        idOf={({ node_id }) => node_id}
        empty="No nodes have joined. POST /api/v1/admin/node-tokens makes a token for one (docs/deployment.md)."
        columns={[
          { head: 'Name', cell: ({ name }) => name },
          { head: 'State', cell: ({ status }) => <State of={status} /> },
          { head: 'Sharing', cell: ({ sharing }) => sharing },
          {
            head: 'Processor',
            align: 'right',
            cell: ({ load }) => (load === null ? '–' : `${Math.round(load * 100)} %`),
          },
          {
            head: 'Free memory',
            align: 'right',
            cell: ({ memory_free_mb }) => (memory_free_mb === null ? '–' : bytes(memory_free_mb * 1_000_000)),
          },
          { head: 'GPUs', align: 'right', cell: ({ gpus }) => gpus.length },
          {
            head: 'Models',
            cell: ({ models }) =>
              models.map(({ model_key, state, error }) => (
                <div key={model_key} className="mono">
                  {model_key}: {error ?? state}
                </div>
              )),
          },
          { head: 'Last seen', cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
          {
            head: 'Change',
            cell: ({ node_id, name, status }) =>
              status === 'draining' ? (
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Resume ${name}`}
                  onClick={() => void change(node_id, 'resume')}
                >
                  Resume
                </Button>
              ) : (
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={status !== 'online'}
                  aria-label={`Drain ${name}`}
                  onClick={() => void change(node_id, 'drain')}
                >
                  Drain
                </Button>
              ),
          },
        ]}
      />
    </>
  )
}

export function Queues() {
  const { data, error } = useApi<QueueStats>(`${BUILDER}/queue/stats`)
  if (!data) return <Loading error={error} what="queues" />
  return (
    <Page
      title="Queues"
      lead="The work of the account whose key is in use; the gateway does not tell that of others yet."
    >
      <Panel title="Work">
        <Facts
          of={{
            'Queued or running': number(data.queue_size),
            'Nodes that accept work': number(data.workers),
            Enqueued: number(data.metrics.enqueued),
            Succeeded: number(data.metrics.succeeded),
            Failed: number(data.metrics.failed),
            Expired: number(data.metrics.expired),
          }}
        />
      </Panel>
    </Page>
  )
}

export const Accounts = () => (
  <Page title="Accounts">
    <OperatorGate>
      <AccountList />
    </OperatorGate>
  </Page>
)

function AccountList() {
  const accounts = usePages<'accounts', Account>(`${ADMIN}/accounts`, 'accounts')
  return (
    <DataTable
      caption="accounts"
      rows={accounts.rows}
      error={accounts.error}
      more={accounts}
      idOf={({ account_id }) => account_id}
      empty="No accounts."
      columns={[
        { head: 'Name', cell: ({ name }) => name },
        { head: 'Id', cell: ({ account_id }) => <span className="mono">{account_id}</span> },
        { head: 'Runs at once', align: 'right', cell: ({ training_quota }) => number(training_quota) },
        { head: 'Tasks waiting', align: 'right', cell: ({ task_quota }) => number(task_quota) },
        { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
      ]}
    />
  )
}

export const KillSwitchPage = () => (
  <Page title="Kill switch" lead="While it is on, the gateways refuse new work; work in progress goes on.">
    <OperatorGate>
      <KillSwitchPanel />
    </OperatorGate>
  </Page>
)

function KillSwitchPanel() {
  const { data, error } = useApi<KillSwitch>(`${ADMIN}/killswitch/status`, { every: 2_000 })
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<Error>()
  const queries = useQueryClient()
  if (!data) return <Loading error={error} what="kill switch" />

  async function submit(event: FormEvent) {
    event.preventDefault()
    const action = data?.active ? 'deactivate' : 'activate'
    await call(`${ADMIN}/killswitch/${action}?${new URLSearchParams({ reason }).toString()}`, {
      method: 'POST',
    })
    setReason('')
    await queries.invalidateQueries()
  }
  return (
    <Panel title={data.active ? 'On: no new work is admitted' : 'Off: work is admitted'}>
      <Facts
        of={{
          'Gateways that know': `${data.gateways.acknowledged} of ${data.gateways.live}`,
          Reason: data.reason ?? '–',
          Changed: <Time at={data.changed_at} />,
          By: data.actor ?? '–',
        }}
      />
      {problem && <Failure error={problem} what="change" />}
      <form onSubmit={(event) => void submit(event).catch(setProblem)}>
        <Group align="flex-end" mt="md">
          <TextInput
            label="Reason"
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" variant="default">
            {data.active ? 'Admit work again' : 'Refuse new work'}
          </Button>
        </Group>
      </form>
    </Panel>
  )
}

export const Audit = () => (
  <Page title="Audit" lead="The ledger of one task.">
    <OperatorGate>
      <AuditPanel />
    </OperatorGate>
  </Page>
)

function AuditPanel() {
  const [id, setId] = useState('')
  const [taskId, setTaskId] = useState<string>()
  const { data, error } = useApi<TaskAudit>(taskId ? `${ADMIN}/audit/task/${taskId}` : null)
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setTaskId(id.trim() || undefined)
        }}
      >
        <Group align="flex-end">
          <TextInput
            label="Id of the task"
            value={id}
            onChange={(event) => setId(event.currentTarget.value)}
            w={340}
          />
          <Button type="submit">Show</Button>
        </Group>
      </form>
      {error && <Failure error={error} what="audit" />}
      {data && (
        <Panel title="Task">
          <Facts
            of={{
              State: <State of={data.status} />,
              Account: <span className="mono">{data.account_id}</span>,
              Endpoint: <span className="mono">{data.endpoint_id}</span>,
              Price: `${number(data.price_micro)} micro-credits`,
            }}
          />
          <DataTable
            caption="entries"
            rows={data.entries}
            idOf={({ entry_id }) => entry_id}
            empty={<Alert variant="outline">This task has no entries.</Alert>}
            columns={[
              { head: 'Kind', cell: ({ kind }) => kind },
              { head: 'Purse', cell: ({ purse }) => <span className="mono">{purse}</span> },
              {
                head: 'Micro-credits',
                align: 'right',
                cell: ({ amount_micro }) => <Text span>{number(amount_micro)}</Text>,
              },
              { head: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
            ]}
          />
        </Panel>
      )}
    </>
  )
}
