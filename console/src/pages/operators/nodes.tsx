import { Group, Text, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import { ADMIN } from '../../api.ts'
import { bytes } from '../../format.ts'
import { Choice } from '../../parts/choice.tsx'
import { DataTable } from '../../parts/data-table.tsx'
import { Time } from '../../parts/facts.tsx'
import { PageLink } from '../../parts/link.tsx'
import { NodeAction } from '../../parts/node-actions.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Failure, Page } from '../../parts/page.tsx'
import type { NodeView } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { usePages } from '../../use-api.ts'

export const Nodes = () => (
  <Page title="Nodes" lead="The machines that run models, training and merges.">
    <OperatorGate>
      <NodeList />
    </OperatorGate>
  </Page>
)

function NodeList() {
  const { run, problem } = useAction()
  const [text, setText] = useState('')
  const [name] = useDebouncedValue(text, 300)
  const [status, setStatus] = useState<string | null>(null)
  const nodes = usePages<'nodes', NodeView>(`${ADMIN}/nodes`, 'nodes', { name, status })
  return (
    <>
      <Group>
        <TextInput
          aria-label="Part of the name"
          placeholder="Part of the name"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Choice
          label="State"
          any="Every state"
          of={['online', 'draining', 'offline']}
          value={status}
          onChange={setStatus}
        />
      </Group>
      {problem && <Failure error={problem} what="change" />}
      <DataTable
        caption="nodes"
        rows={nodes.rows}
        error={nodes.error}
        more={nodes}
        idOf={({ node_id }) => node_id}
        empty={
          name || status
            ? 'No nodes match.'
            : 'No nodes have joined. POST /api/v1/admin/node-tokens creates a token for one (docs/deployment.md).'
        }
        columns={[
          {
            head: 'Name',
            cell: (node) => (
              <PageLink to="/nodes/$nodeId" params={{ nodeId: node.node_id }}>
                {node.name}
              </PageLink>
            ),
          },
          {
            head: 'State',
            state: ({ status }) => ({ as: 'node', of: status }),
            cell: ({ gate_fault, gpu_fault, disk_fault }) => (
              <>
                {gate_fault && (
                  <Text size="xs">
                    {gate_fault.refused ? 'refused by the gate' : 'does not reach the gate'}
                  </Text>
                )}
                {gpu_fault && <Text size="xs">cannot use its GPUs</Text>}
                {disk_fault && <Text size="xs">its disk is full</Text>}
              </>
            ),
          },
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
          { head: 'Models', align: 'right', cell: ({ models }) => models.length },
          { head: 'Last seen', cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
          { head: 'Change', cell: (node) => <NodeAction of={node} run={run} /> },
        ]}
      />
    </>
  )
}
