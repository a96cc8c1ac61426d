import { Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { BUILDER } from '../api.ts'
import { bytes, measure, number } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { DeleteDataset } from '../parts/delete-dataset.tsx'
import { Facts } from '../parts/facts.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import { datasetState } from '../states.ts'
import type { Dataset, DatasetPreview, PreviewValue } from '../types.ts'
import { useApi } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const TrainForm = lazy(() => import('../parts/forms/train-form.tsx'))

const SHOWN_ROWS = 20
const SHOWN_VALUES = 3

export function DatasetPage() {
  const { datasetId } = useParams({ from: '/datasets/$datasetId' })
  const path = `${BUILDER}/datasets/${datasetId}`
  const { data, error } = useApi<Dataset>(path)
  const mayTrain = useMay('operator')
  const navigate = useNavigate()
  if (!data) return <Loading error={error} what="dataset" />
  return (
    <Page
      title={data.dataset_name}
      lead={<State as="dataset" of={datasetState(data)} />}
      actions={<DeleteDataset dataset={data} onDone={() => navigate({ to: '/datasets' })} />}
    >
      <StateNote as="dataset" of={datasetState(data)} why={data.error_message} />
      <Panel title="Details">
        <Facts
          of={{
            Id: <span className="mono">{data.dataset_id}</span>,
            Description: data.description || '–',
            Format: data.storage_format,
            Rows: number(data.num_samples),
            Size: bytes(data.total_size_bytes),
            Visibility: data.visibility,
          }}
        />
      </Panel>
      {data.status === 'ready' && mayTrain && (
        <Suspense fallback={<Loading error={null} what="form" />}>
          <TrainForm dataset={data} />
        </Suspense>
      )}
      {data.status === 'ready' && <ProfileOf path={path} />}
      {data.status === 'ready' && <FirstRows path={path} />}
    </Page>
  )
}

function ProfileOf({ path }: { path: string }) {
  const { data, error } = useApi<Pick<DatasetPreview, 'sampled_rows' | 'columns'>>(`${path}/profile`, {
    every: false,
  })
  return (
    <Panel title="Columns">
      {error && <Failure error={error} what="profile" />}
      {data && (
        <>
          <Text size="sm" c="dimmed" mb="sm">
            Of the first {number(data.sampled_rows)} rows.
          </Text>
          <DataTable
            caption="columns"
            rows={data.columns}
            idOf={({ name }) => name}
            empty="The file has no columns."
            columns={[
              { head: 'Name', cell: ({ name }) => name },
              { head: 'Type', cell: ({ type }) => type },
              { head: 'Missing', align: 'right', cell: ({ missing }) => number(missing) },
              { head: 'Different', align: 'right', cell: ({ distinct }) => number(distinct) },
              { head: 'Min', align: 'right', cell: ({ min }) => figure(min) },
              { head: 'Mean', align: 'right', cell: ({ mean }) => figure(mean) },
              { head: 'Max', align: 'right', cell: ({ max }) => figure(max) },
              {
                head: 'Most frequent',
                cell: ({ common }) =>
                  common
                    .slice(0, SHOWN_VALUES)
                    .map(({ value, count }) => `${cellOf(value)} (${number(count)})`)
                    .join(', '),
              },
            ]}
          />
        </>
      )}
    </Panel>
  )
}

function FirstRows({ path }: { path: string }) {
  const { data, error } = useApi<Pick<DatasetPreview, 'columns' | 'rows'>>(
    `${path}/rows?limit=${SHOWN_ROWS}`,
    { every: false },
  )
  return (
    <Panel title="First rows">
      {error && <Failure error={error} what="rows" />}
      {data && (
        <DataTable
          caption="first rows"
          rows={data.rows.map((row, at) => ({ row, at }))}
          idOf={({ at }) => String(at)}
          empty="There are no rows."
          columns={data.columns.map(({ name }, i) => ({
            head: name,
            cell: ({ row }: { row: PreviewValue[]; at: number }) => cellOf(row[i]),
          }))}
        />
      )}
    </Panel>
  )
}

/** Years have no separators, and other four-digit numbers don't need them. */
function figure(value: number | null): string {
  if (value === null) return '–'
  return Math.abs(value) >= 1_000 && Math.abs(value) < 10_000 ? value.toFixed(0) : measure(value)
}

const cellOf = (value: PreviewValue | undefined): string =>
  value === null || value === undefined ? '–' : String(value)
