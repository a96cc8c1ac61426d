import { Button, Group, Text, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import { BUILDER, withQuery } from '../api.ts'
import { number } from '../format.ts'
import { Choice } from '../parts/choice.tsx'
import { DataTable, NEWEST } from '../parts/data-table.tsx'
import { Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page } from '../parts/page.tsx'
import type { Endpoint } from '../types.ts'
import { useApi } from '../use-api.ts'

const PAGE = 50
/** Other kinds can be found with the search. */
const KINDS = [
  'chat',
  'code',
  'text-generation',
  'embeddings',
  'rerank',
  'moderation',
  'classification',
  'regression',
  'forecasting',
  'translation',
  'ocr',
  'stt',
  'text-to-image',
  'text-to-speech',
  'tool',
]

export function Endpoints() {
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text, 300)
  const [offset, setOffset] = useState(0)
  const [kind, setKind] = useState<string | null>(null)
  const [sorted, setSorted] = useState(NEWEST)
  const { data, error } = useApi<{ endpoints: Endpoint[]; total: number }>(
    withQuery(`${BUILDER}/endpoints`, {
      include_readiness: true,
      search,
      task_type: kind,
      sort: sorted.by,
      order: sorted.order,
      limit: PAGE,
      offset,
    }),
  )
  /** A changed filter starts at its first page. */
  const rerun =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      set(value)
      setOffset(0)
    }
  return (
    <Page
      title="Endpoints"
      lead={data && `${number(data.total)} that this account may call.`}
      actions={
        <>
          <TextInput
            aria-label="Search endpoints"
            placeholder="Search"
            value={text}
            onChange={(event) => rerun(setText)(event.currentTarget.value)}
          />
          <Choice label="Kind" any="Every kind" of={KINDS} value={kind} onChange={rerun(setKind)} />
        </>
      }
    >
      <DataTable
        caption="endpoints"
        rows={data?.endpoints}
        error={error}
        idOf={({ endpoint_id }) => endpoint_id}
        sorted={sorted}
        onSort={rerun(setSorted)}
        empty="No endpoints match. Register a version for inference, or import a model from the hub."
        columns={[
          {
            head: 'Name',
            sort: 'name',
            cell: ({ endpoint_id, name }) => (
              <PageLink to="/endpoints/$endpointId" params={{ endpointId: endpoint_id }}>
                {name}
              </PageLink>
            ),
          },
          { head: 'Kind', cell: ({ task_type }) => task_type },
          {
            head: 'Readiness',
            state: ({ readiness: of }) => (of ? { as: 'readiness', of } : undefined),
          },
          { head: 'State', state: ({ status }) => ({ as: 'endpoint', of: status }) },
          {
            head: 'Requests',
            align: 'right',
            sort: 'total_requests',
            cell: ({ total_requests }) => number(total_requests),
          },
          { head: 'USD per request', align: 'right', cell: ({ price_per_request }) => price_per_request },
          { head: 'Created', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
      />
      {data && data.total > PAGE && (
        <Group justify="center">
          <Button variant="default" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>
            Back
          </Button>
          <Text size="sm">
            {number(offset + 1)} to {number(Math.min(offset + PAGE, data.total))} of {number(data.total)}
          </Text>
          <Button
            variant="default"
            disabled={offset + PAGE >= data.total}
            onClick={() => setOffset(offset + PAGE)}
          >
            On
          </Button>
        </Group>
      )}
    </Page>
  )
}
