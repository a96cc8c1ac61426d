import { Button, FileInput, Group, Progress, Select, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client, sendingClient } from '../api.ts'
import { bytes, number } from '../format.ts'
import { StateChoice } from '../parts/choice.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { DeleteDataset } from '../parts/delete-dataset.tsx'
import { Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Page, Panel } from '../parts/page.tsx'
import { datasetState } from '../states.ts'
import type { Dataset, StorageFormat } from '../types.ts'
import { useApi, useSortedPages } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const FORMATS: Record<string, StorageFormat> = {
  csv: 'csv',
  jsonl: 'jsonl',
  parquet: 'parquet',
  zip: 'hf_dataset',
}
/**
 * Larger files are uploaded directly to the object store, whose CORS rules must allow this page if it's on another
 * origin.
 */
const MAX_IN_A_FORM = 100_000_000

export function Datasets() {
  const mayUpload = useMay('operator')
  const [status, setStatus] = useState<string | null>(null)
  const path = `${BUILDER}/datasets`
  const datasets = useSortedPages<'datasets', Dataset>(path, 'datasets', { status }, { isNamed: true })
  return (
    <Page title="Datasets" actions={<StateChoice as="dataset" value={status} onChange={setStatus} />}>
      {mayUpload && <Upload />}
      <DataTable
        caption="datasets"
        {...datasets}
        idOf={({ dataset_id }) => dataset_id}
        empty={
          status
            ? 'No datasets are in this state.'
            : mayUpload
              ? 'No datasets yet. Upload a file above.'
              : 'No datasets yet.'
        }
        columns={[
          {
            head: 'Name',
            sort: 'name',
            cell: ({ dataset_id, dataset_name }) => (
              <PageLink to="/datasets/$datasetId" params={{ datasetId: dataset_id }}>
                {dataset_name}
              </PageLink>
            ),
          },
          {
            head: 'State',
            state: (dataset) => ({ as: 'dataset', of: datasetState(dataset) }),
          },
          { head: 'Format', cell: ({ storage_format }) => storage_format },
          { head: 'Rows', align: 'right', cell: ({ num_samples }) => number(num_samples) },
          { head: 'Size', align: 'right', cell: ({ total_size_bytes }) => bytes(total_size_bytes) },
          { head: 'Created', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
          ...(mayUpload && datasets.rows?.some(isFailed) ? [CHANGE] : []),
        ]}
      />
    </Page>
  )
}

const isFailed = ({ status }: Dataset): boolean => status === 'failed'

/** Deletes a failed dataset in the list; a usable dataset is deleted on its page. */
const CHANGE: Column<Dataset> = {
  head: 'Change',
  cell: (dataset) => isFailed(dataset) && <DeleteDataset dataset={dataset} />,
}

function Upload() {
  const navigate = useNavigate()
  const [file, setFile] = useState<File | null>(null)
  const [name, setName] = useState('')
  const [format, setFormat] = useState<StorageFormat>('csv')
  const [problem, setProblem] = useState<Error>()
  const [sent, setSent] = useState<number>()
  const isBusy = sent !== undefined
  const known = useApi<{ datasets: Dataset[] }>(file && `${BUILDER}/datasets?limit=100`)
  const isTaken = known.data?.datasets.some((each) => each.dataset_name === name && !isFailed(each))

  function choose(chosen: File | null) {
    setFile(chosen)
    if (!chosen) return
    setName(chosen.name.replace(/\.[^.]+$/, ''))
    setFormat(FORMATS[chosen.name.split('.').at(-1)?.toLowerCase() ?? ''] ?? 'csv')
  }
  async function upload(event: FormEvent) {
    event.preventDefault()
    if (!file) return
    setSent(0)
    setProblem(undefined)
    try {
      const { dataset_id } =
        file.size <= MAX_IN_A_FORM
          ? await sendingClient(setSent).datasets.uploadForm({ name, storage_format: format, file })
          : await client().datasets.upload({
              dataset_name: name,
              storage_format: format,
              file,
              onProgress: (progress) => setSent(progress.sent / progress.total),
            })
      await navigate({ to: '/datasets/$datasetId', params: { datasetId: dataset_id } })
    } catch (err) {
      setProblem(err as Error)
    }
    setSent(undefined)
  }

  return (
    <Panel title="Upload a file">
      <form onSubmit={(event) => void upload(event)}>
        <Group align="flex-end">
          <FileInput
            label="File"
            description="CSV, JSON lines, Parquet or ZIP"
            placeholder="Choose a file"
            value={file}
            onChange={choose}
            w={240}
            clearable
            clearButtonProps={{ 'aria-label': 'No file' }}
          />
          <TextInput
            label="Name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
          />
          <Select
            label="Format"
            data={Object.values(FORMATS)}
            value={format}
            onChange={(chosen) => chosen && setFormat(chosen)}
            allowDeselect={false}
            w={140}
          />
          <Button type="submit" loading={isBusy} disabled={!file}>
            Upload
          </Button>
        </Group>
      </form>
      {isTaken && !isBusy && (
        <Text size="sm" mt="sm">
          A dataset named {name} already exists. This file becomes another dataset with the same name.
        </Text>
      )}
      {isBusy && (
        <>
          <Progress value={100 * sent} mt="md" aria-label={`Sent ${Math.floor(100 * sent)} %`} />
          {sent === 1 && <Text size="sm">The file has been sent and is now being read.</Text>}
        </>
      )}
      {problem && <Failure error={problem} what="upload" />}
    </Panel>
  )
}
