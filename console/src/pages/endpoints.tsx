import { Button, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import { BUILDER, withQuery } from '../api.ts'
import { number } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page } from '../parts/page.tsx'
import { State } from '../parts/state.tsx'
import type { Endpoint } from '../types.ts'
import { useApi } from '../use-api.ts'

const PAGE = 50

export function Endpoints() {
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text, 300)
  const [limit, setLimit] = useState(PAGE)
  const { data, error } = useApi<{ endpoints: Endpoint[]; total: number }>(
    withQuery(`${BUILDER}/endpoints`, { include_readiness: true, search, limit }),
  )
  return (
    <Page
      title="Endpoints"
      lead={data && `${number(data.total)} that this account may call.`}
      actions={
        <TextInput
          aria-label="Search endpoints"
          placeholder="Search"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      }
    >
      <DataTable
        caption="endpoints"
        rows={data?.endpoints}
        error={error}
        idOf={({ endpoint_id }) => endpoint_id}
        empty="No endpoint matches. Register a version for inference, or import a model from the hub."
        columns={[
          {
            head: 'Name',
            cell: ({ endpoint_id, name }) => (
              <PageLink to="/endpoints/$endpointId" params={{ endpointId: endpoint_id }}>
                {name}
              </PageLink>
            ),
          },
          { head: 'Kind', cell: ({ task_type }) => task_type },
          { head: 'Readiness', cell: ({ readiness }) => (readiness ? <State of={readiness} /> : '–') },
          { head: 'State', cell: ({ status }) => <State of={status} /> },
          { head: 'Requests', align: 'right', cell: ({ total_requests }) => number(total_requests) },
          { head: 'USD a request', align: 'right', cell: ({ price_per_request }) => price_per_request },
        ]}
      />
      {data && data.total > limit && limit < 100 && (
        <Button variant="default" onClick={() => setLimit(100)}>
          Show more
        </Button>
      )}
    </Page>
  )
}
