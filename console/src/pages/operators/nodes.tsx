import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ADMIN, call } from '../../api.ts'
import { bytes } from '../../format.ts'
import { DataTable } from '../../parts/data-table.tsx'
import { Time } from '../../parts/facts.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Failure, Page } from '../../parts/page.tsx'
import { State } from '../../parts/state.tsx'
import type { NodeView } from '../../types.ts'
import { usePages } from '../../use-api.ts'

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
