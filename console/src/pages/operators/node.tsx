import { Alert, Progress, SimpleGrid, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import { ADMIN } from '../../api.ts'
import { bytes, seconds, shortId } from '../../format.ts'
import { DataTable } from '../../parts/data-table.tsx'
import { Facts, Time } from '../../parts/facts.tsx'
import { NodeAction } from '../../parts/node-actions.tsx'
import { NodeMemoryChart } from '../../parts/node-memory.tsx'
import { NodeModels } from '../../parts/node-models.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Failure, Loading, Page, Panel } from '../../parts/page.tsx'
import { State, StateNote } from '../../parts/state.tsx'
import { TemporalLink } from '../../parts/temporal-link.tsx'
import type { NodeDetail, NodeLogs } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { useApi } from '../../use-api.ts'

const MB = 1_000_000

export function NodePage() {
  const { nodeId } = useParams({ from: '/nodes/$nodeId' })
  return (
    <OperatorGate>
      <NodeOf id={nodeId} />
    </OperatorGate>
  )
}

function NodeOf({ id }: { id: string }) {
  const { data, error } = useApi<NodeDetail>(`${ADMIN}/nodes/${id}`)
  const { run, problem } = useAction()
  if (!data) return <Loading error={error} what="node" />
  return (
    <Page
      title={data.name}
      lead={<State as="node" of={data.status} />}
      actions={<NodeAction of={data} run={run} />}
    >
      {problem && <Failure error={problem} what="change" />}
      <StateNote as="node" of={data.status} />
      {data.gate_fault && <NoGate of={data.gate_fault} />}
      {data.gpu_fault && <NoGpu of={data.gpu_fault} />}
      {data.disk_fault && <FullDisk of={data.disk_fault} />}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Machine of={data} />
        <Place of={data} />
      </SimpleGrid>
      <NodeModels of={data} />
      <NodeMemoryChart id={id} />
      <Work of={data.work} />
      <Environments of={data.environments} />
      <Log id={id} />
    </Page>
  )
}

function NoGate({ of: { address, since, reason, refused } }: { of: NonNullable<NodeDetail['gate_fault']> }) {
  if (refused)
    return (
      <Alert role="note" color="red" variant="outline" title="Rejected by the Temporal gate">
        Its runs, stages and queued tasks may have been waiting since <Time at={since} />: {reason}. Upgrade
        the node: versions up to 0.12 open ten polls for each model on their disk.
      </Alert>
    )
  return (
    <Alert role="note" color="red" variant="outline" title="Cannot reach the Temporal gate">
      It has accepted no runs, stages or queued tasks since <Time at={since} />: {address ?? 'no address'},{' '}
      {reason}. Check that the gate is running, that HEARTH_GATE_URL on every gateway is its address, and that
      the network lets the node reach it.
    </Alert>
  )
}

function NoGpu({ of: { since, reason } }: { of: NonNullable<NodeDetail['gpu_fault']> }) {
  return (
    <Alert role="note" color="red" variant="outline" title="Cannot compute on its GPUs">
      Since <Time at={since} />: {reason}. Models and runs that are placed on these GPUs fail. Check the
      NVIDIA driver of the machine, then restart the node.
    </Alert>
  )
}

function FullDisk({ of: { since, free_mb } }: { of: NonNullable<NodeDetail['disk_fault']> }) {
  return (
    <Alert role="note" color="red" variant="outline" title="Its disk is full">
      Since <Time at={since} />, {bytes(free_mb * MB)} are free. It starts no runs. Free space on its disk, or
      lower the node's HEARTH_NODE_CACHE_GB. Runs continue automatically once there is room.
    </Alert>
  )
}

function Machine({ of: { inventory, memory_free_mb, load, gpus } }: { of: NodeDetail }) {
  return (
    <Panel title="Machine">
      <Facts
        of={{
          Hardware: `${inventory.hardware}, ${inventory.cpus} processors, ${bytes(inventory.ram_mb * MB)} of memory`,
          Processor: load === null ? '–' : `${Math.round(load * 100)} % in use`,
          'Room for models': `${memory_free_mb === null ? '–' : bytes(memory_free_mb * MB)} of ${bytes(inventory.memory_mb * MB)} free`,
          ...Object.fromEntries(
            inventory.gpus.map(({ name, memory_mb }, at) => [
              `GPU ${at}`,
              `${name}, ${bytes((gpus[at]?.free_mb ?? 0) * MB)} of ${bytes(memory_mb * MB)} free`,
            ]),
          ),
          'Runs at once': inventory.train_slots,
          Profiles: inventory.profiles.join(', ') || '–',
        }}
      />
    </Panel>
  )
}

function Place({ of }: { of: NodeDetail }) {
  return (
    <Panel title="Place in the pool">
      <Facts
        of={{
          Id: <span className="mono">{of.node_id}</span>,
          Sharing: of.sharing,
          Owner: <span className="mono">{of.account_id}</span>,
          Version: `${of.inventory.version} on ${of.inventory.platform}`,
          Joined: <Time at={of.joined_at} />,
          'Last seen': <Time at={of.last_seen_at} />,
          Gateway: of.gateway?.base_url ?? of.gateway?.gateway_id ?? '–',
        }}
      />
    </Panel>
  )
}

function Work({ of }: { of: NodeDetail['work'] }) {
  return (
    <Panel title="Work">
      <DataTable
        caption="work"
        rows={of}
        idOf={({ kind, id }) => `${kind} ${id}`}
        empty="It has no work. Requests that gateways send directly to it are not listed."
        columns={[
          { head: 'Kind', cell: ({ kind }) => kind },
          { head: 'Id', cell: ({ id }) => <span className="mono">{id}</span> },
          { head: 'Account', cell: ({ account_id }) => <span className="mono">{account_id}</span> },
          { head: 'Attempt', align: 'right', cell: ({ attempt }) => attempt },
          { head: 'Since', cell: ({ since }) => <Time at={since} /> },
          { head: 'Lease ends', cell: ({ lease_expires_at }) => <Time at={lease_expires_at} /> },
          {
            head: 'Workflow',
            cell: ({ workflow_id, temporal_url }) => <TemporalLink id={workflow_id} url={temporal_url} />,
          },
        ]}
      />
    </Panel>
  )
}

/** The node's Python environments; each is installed on first use. */
function Environments({ of }: { of: NodeDetail['environments'] }) {
  if (of.length === 0) return null
  return (
    <Panel title="Environments">
      <DataTable
        caption="environments"
        rows={of}
        idOf={({ name }) => name}
        empty=""
        columns={[
          { head: 'Name', cell: ({ name }) => name },
          {
            head: 'State',
            state: ({ state }) => ({ as: 'environment', of: state }),
            cell: ({ state, progress, eta_s, error }) => (
              <>
                {progress !== undefined && state === 'installing' && (
                  <Progress value={100 * progress} aria-label={`${Math.round(100 * progress)} % installed`} />
                )}
                {eta_s !== undefined && state !== 'ready' && <Text size="xs">takes {seconds(eta_s)}</Text>}
                {error && <Text size="xs">{error}</Text>}
              </>
            ),
          },
          { head: 'For', cell: ({ profiles }) => profiles.join(', ') },
        ]}
      />
    </Panel>
  )
}

function Log({ id }: { id: string }) {
  const { data, error } = useApi<NodeLogs>(`${ADMIN}/nodes/${id}/logs`)
  return (
    <Panel title="Log of its last runs and merges">
      {!data ? (
        <Loading error={error} what="log" />
      ) : data.logs.length === 0 ? (
        <Text c="dimmed">It has not run anything that writes a log.</Text>
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a region that scrolls has to be reachable by keyboard
        <pre className="log" tabIndex={0} role="log" aria-label="Log of the node">
          {data.logs.map(({ job_id, attempt, seq, at, message }) => (
            <div key={`${job_id} ${attempt} ${seq}`}>
              <time dateTime={at}>{at.slice(11, 19)}</time>
              <span title={job_id ?? ''}>{job_id && shortId(job_id)}</span> {message}
            </div>
          ))}
        </pre>
      )}
    </Panel>
  )
}
