import { Alert, Button, Table, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { BUILDER, call } from '../api.ts'
import { bytes, lasted, measure } from '../format.ts'
import { Chart } from '../parts/chart.tsx'
import { Json } from '../parts/code.tsx'
import { lossCurves } from '../parts/curves.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { RegisterForm } from '../parts/register-form.tsx'
import { RunLog } from '../parts/run-log.tsx'
import { State } from '../parts/state.tsx'
import type { Epoch, Run } from '../types.ts'
import { useApi } from '../use-api.ts'
import { useMay } from '../use-may.ts'

interface Artifacts {
  artifacts: { filename: string; size_bytes: number; last_modified: string }[]
}
interface Events {
  events: { event_type: string; timestamp: string; detail: string | null }[]
}

const ACTIVE_MS = 1_500

export function RunPage() {
  const { runId } = useParams({ from: '/runs/$runId' })
  const path = `${BUILDER}/training/runs/${runId}`
  const [error, setError] = useState<Error>()
  const run = useApi<Run>(path, { every: ACTIVE_MS })
  const mayChange = useMay('operator')
  const isOpen = run.data?.status === 'pending' || run.data?.status === 'running'
  const every = isOpen ? ACTIVE_MS : 15_000
  const metrics = useApi<{ metrics: { epochs: Epoch[] } & Record<string, unknown> }>(`${path}/metrics`, {
    every,
  })
  const events = useApi<Events>(`${path}/events`, { every })
  const artifacts = useApi<Artifacts>(run.data?.status === 'completed' ? `${path}/artifacts` : null, {
    every: 15_000,
  })
  const epochs = metrics.data?.metrics.epochs
  const { x, curves } = useMemo(() => lossCurves(epochs ?? []), [epochs])

  if (!run.data) return <Loading error={run.error} what="run" />
  const scalars = Object.entries({ ...run.data.metrics, ...metrics.data?.metrics }).filter(
    ([, value]) => typeof value !== 'object',
  )
  return (
    <Page
      title={run.data.job_name}
      lead={
        <State
          of={run.data.status}
          {...(run.data.waiting && { words: `Waiting: ${run.data.waiting.reason}` })}
        />
      }
      actions={mayChange && <Actions run={run.data} path={path} isOpen={isOpen} onError={setError} />}
    >
      {error && <Failure error={error} what="change" />}
      {run.data.error_message && (
        <Alert role="note" color="red" variant="outline" title="Why it failed">
          {run.data.error_message}
        </Alert>
      )}
      <Panel title="Losses">
        {x.length > 0 && curves.length > 0 ? (
          <Chart label={`Losses of ${run.data.job_name} by epoch`} xName="Epoch" x={x} curves={curves} />
        ) : (
          <Text c="dimmed">{isOpen ? 'The first epoch has not ended yet.' : 'This run has no losses.'}</Text>
        )}
        {scalars.length > 0 && (
          <Facts
            of={Object.fromEntries(
              scalars.map(([name, value]) => [name.replaceAll('_', ' '), measure(value)]),
            )}
          />
        )}
      </Panel>
      {mayChange && run.data.version_id !== null && <RegisterForm run={run.data} />}
      <RunLog path={path} isOpen={isOpen} />
      <Panel title="Events">
        <Table aria-label="events" verticalSpacing={6}>
          <Table.Tbody>
            {events.data?.events.map((event) => (
              <Table.Tr key={`${event.timestamp} ${event.event_type}`}>
                <Table.Td w={150}>
                  <Time at={event.timestamp} />
                </Table.Td>
                <Table.Td w={180}>{event.event_type.replaceAll('_', ' ')}</Table.Td>
                <Table.Td>{event.detail}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Panel>
      {artifacts.data && (
        <Panel title="Artifacts">
          <DataTable
            caption="artifacts"
            rows={artifacts.data.artifacts}
            idOf={({ filename }) => filename}
            empty="No files."
            columns={[
              { head: 'File', cell: ({ filename }) => <span className="mono">{filename}</span> },
              { head: 'Size', align: 'right', cell: ({ size_bytes }) => bytes(size_bytes) },
              {
                head: 'Get',
                cell: ({ filename }) => <Download path={path} filename={filename} onError={setError} />,
              },
            ]}
          />
        </Panel>
      )}
      <Panel title="Details">
        <Facts
          of={{
            Id: <span className="mono">{run.data.job_id}</span>,
            Model: <span className="mono">{run.data.model_config_id}</span>,
            Dataset: run.data.dataset_id ? (
              <PageLink to="/datasets/$datasetId" params={{ datasetId: run.data.dataset_id }}>
                {run.data.dataset_id}
              </PageLink>
            ) : (
              '–'
            ),
            'Mode and hardware': `${run.data.operating_mode}, ${run.data.hardware_preference}`,
            Attempt: run.data.attempt,
            Created: <Time at={run.data.created_at} />,
            Took: lasted(run.data.started_at, run.data.completed_at),
          }}
        />
        <Json of={run.data.hyperparameters} label="hyperparameters" />
      </Panel>
    </Page>
  )
}

interface ActionsProps {
  run: Run
  path: string
  isOpen: boolean
  onError: (error: Error) => void
}

function Actions({ run, path, isOpen, onError }: ActionsProps) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [isBusy, setBusy] = useState(false)

  async function attempt(action: () => Promise<void>) {
    setBusy(true)
    await action().catch(onError)
    setBusy(false)
  }
  const cancel = async () => {
    await call(`${path}/cancel`, { method: 'POST', body: {} })
    await queries.invalidateQueries()
  }
  const again = async () => {
    const { job_id } = await call<{ job_id: string }>(`${BUILDER}/training/runs`, {
      method: 'POST',
      body: {
        job_name: `${run.job_name.slice(0, 190)} (again)`,
        model_config_id: run.model_config_id,
        dataset_id: run.dataset_id,
        hyperparameters: run.hyperparameters,
        operating_mode: run.operating_mode,
        hardware_preference: run.hardware_preference,
      },
    })
    await navigate({ to: '/runs/$runId', params: { runId: job_id } })
  }

  return isOpen ? (
    <Button variant="default" loading={isBusy} onClick={() => void attempt(cancel)}>
      Cancel
    </Button>
  ) : (
    run.job_type === 'training' && (
      <Button variant="default" loading={isBusy} onClick={() => void attempt(again)}>
        Run again
      </Button>
    )
  )
}

function Download({
  path,
  filename,
  onError,
}: {
  path: string
  filename: string
  onError: (error: Error) => void
}) {
  async function open() {
    const query = new URLSearchParams({ files: filename })
    const { download_urls } = await call<{ download_urls: { download_url: string }[] }>(
      `${path}/artifacts/download-urls?${query.toString()}`,
    )
    const url = download_urls[0]?.download_url
    if (url) location.assign(url)
  }
  return (
    <Button
      size="compact-sm"
      variant="default"
      onClick={() => void open().catch(onError)}
      aria-label={`Get ${filename}`}
    >
      Get
    </Button>
  )
}
