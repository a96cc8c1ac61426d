import { Alert, Button, FileInput, Group, Select, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, call } from '../api.ts'
import { bytes, number } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State } from '../parts/state.tsx'
import type { Dataset } from '../types.ts'
import { useApi, usePages } from '../use-api.ts'

const FORMATS: Record<string, string> = { csv: 'csv', jsonl: 'jsonl', parquet: 'parquet', zip: 'hf_dataset' }
const READING = 'Reading the file'

export function Datasets() {
  const datasets = usePages<'datasets', Dataset>(`${BUILDER}/datasets`, 'datasets')
  return (
    <Page title="Datasets">
      <Upload />
      <DataTable
        caption="datasets"
        rows={datasets.rows}
        error={datasets.error}
        more={datasets}
        idOf={({ dataset_id }) => dataset_id}
        empty="No datasets yet. Upload a file above."
        columns={[
          {
            head: 'Name',
            cell: ({ dataset_id, dataset_name }) => (
              <PageLink to="/datasets/$datasetId" params={{ datasetId: dataset_id }}>
                {dataset_name}
              </PageLink>
            ),
          },
          {
            head: 'State',
            cell: ({ status }) => <State of={status} {...(status === 'pending' && { words: READING })} />,
          },
          { head: 'Format', cell: ({ storage_format }) => storage_format },
          { head: 'Rows', align: 'right', cell: ({ num_samples }) => number(num_samples) },
          { head: 'Size', align: 'right', cell: ({ total_size_bytes }) => bytes(total_size_bytes) },
          { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
      />
    </Page>
  )
}

function Upload() {
  const queries = useQueryClient()
  const [file, setFile] = useState<File | null>(null)
  const [name, setName] = useState('')
  const [format, setFormat] = useState<string | null>('csv')
  const [problem, setProblem] = useState<Error>()
  const [isBusy, setBusy] = useState(false)

  function choose(chosen: File | null) {
    setFile(chosen)
    if (!chosen) return
    setName(chosen.name.replace(/\.[^.]+$/, ''))
    setFormat(FORMATS[chosen.name.split('.').at(-1)?.toLowerCase() ?? ''] ?? 'csv')
  }
  async function upload(event: FormEvent) {
    event.preventDefault()
    if (!file) return
    setBusy(true)
    setProblem(undefined)
    const body = new FormData()
    body.set('name', name)
    body.set('storage_format', format ?? 'csv')
    body.set('file', file)
    try {
      await call(`${BUILDER}/datasets/upload`, { method: 'POST', body })
      setFile(null)
      setName('')
      await queries.invalidateQueries()
    } catch (err) {
      setProblem(err as Error)
    }
    setBusy(false)
  }

  return (
    <Panel title="Upload a file">
      <form onSubmit={(event) => void upload(event)}>
        <Group align="flex-end">
          <FileInput
            label="File"
            description="At most 100 MB"
            placeholder="Choose a file"
            value={file}
            onChange={choose}
            w={240}
            clearable
          />
          <TextInput
            label="Name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
          />
          <Select
            label="Format"
            data={['csv', 'jsonl', 'parquet', 'hf_dataset']}
            value={format}
            onChange={setFormat}
            allowDeselect={false}
            w={140}
          />
          <Button type="submit" loading={isBusy} disabled={!file}>
            Upload
          </Button>
        </Group>
      </form>
      {problem && <Failure error={problem} what="upload" />}
    </Panel>
  )
}

export function DatasetPage() {
  const { datasetId } = useParams({ from: '/datasets/$datasetId' })
  const path = `${BUILDER}/datasets/${datasetId}`
  const { data, error } = useApi<Dataset>(path)
  const rows = useApi<{ rows: Record<string, unknown>[] }>(
    data?.status === 'ready' ? `${path}/rows?limit=20` : null,
    {
      every: false,
    },
  )
  if (!data) return <Loading error={error} what="dataset" />
  const columns = data.columns ?? []
  return (
    <Page
      title={data.dataset_name}
      lead={<State of={data.status} {...(data.status === 'pending' && { words: READING })} />}
    >
      {data.error_message && (
        <Alert role="note" color="red" variant="outline" title="Why it failed">
          {data.error_message}
        </Alert>
      )}
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
      <Panel title="Columns">
        <DataTable
          caption="columns"
          rows={columns}
          idOf={({ name }) => name}
          empty="The columns are known once the file has been read."
          columns={[
            { head: 'Name', cell: ({ name }) => name },
            { head: 'Type', cell: ({ type }) => type },
          ]}
        />
      </Panel>
      <Panel title="First rows">
        {rows.data ? (
          <DataTable
            caption="first rows"
            rows={rows.data.rows.map((row, at) => ({ row, at }))}
            idOf={({ at }) => String(at)}
            empty="There are no rows."
            columns={columns.map(({ name }) => ({
              head: name,
              cell: ({ row }: { row: Record<string, unknown>; at: number }) => cellOf(row[name]),
            }))}
          />
        ) : (
          <Text c="dimmed">This gateway does not show rows.</Text>
        )}
      </Panel>
    </Page>
  )
}

const cellOf = (value: unknown): string =>
  typeof value === 'string' ? value : value === null || value === undefined ? '' : JSON.stringify(value)
