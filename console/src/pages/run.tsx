import { Button, Table, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense, useMemo, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { bytes, number } from '../format.ts'
import { Chart } from '../parts/chart.tsx'
import { Json } from '../parts/code.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { DataWarnings } from '../parts/data-warnings.tsx'
import { Facts, Lasted, Time } from '../parts/facts.tsx'
import { RegisterForm } from '../parts/forms/register-form.tsx'
import { LeftOutColumns } from '../parts/left-out.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { lossCurves } from '../parts/runs/curves.ts'
import { RunActions } from '../parts/runs/run-actions.tsx'
import { LINES, RunLog } from '../parts/runs/run-log.tsx'
import { RunMeasures } from '../parts/runs/run-measures.tsx'
import { RunProgress } from '../parts/runs/run-progress.tsx'
import { RunState, StateNote } from '../parts/state.tsx'
import { useWorkflow } from '../parts/temporal-link.tsx'
import { stateOfRun } from '../states.ts'
import type { ArtifactList, Epoch, Run, RunEvents } from '../types.ts'
import { useApi, useRead } from '../use-api.ts'
import { useMay } from '../use-may.ts'
import { joined, useRunFeed } from '../use-run-feed.ts'

const AgainForm = lazy(() => import('../parts/forms/again-form.tsx'))

/** How often the run is read again, in case its event stream was cut off. */
const REREAD_INTERVAL_MS = 10_000

/** Gives each run a separate page component, so that no state of another run stays on it. */
export function RunPage() {
  const { runId } = useParams({ from: '/runs/$runId' })
  return <PageOfRun key={runId} runId={runId} />
}

function PageOfRun({ runId }: { runId: string }) {
  const path = `${BUILDER}/training/runs/${runId}`
  const [error, setError] = useState<Error>()
  const [isRepeated, setRepeated] = useState(false)
  const run = useApi<Run>(path, { every: REREAD_INTERVAL_MS })
  const mayChange = useMay('operator')
  const kind = run.data?.job_type === 'merge' ? 'merge' : 'run'
  const workflow = useWorkflow(run.data && { kind, id: runId })
  const isOpen = run.data?.status === 'pending' || run.data?.status === 'running'
  // Read everything else after the log, so that it's at least as new as the last log line.
  const log = useRead(['log of run', runId], () => client().runs.logs(runId, { limit: LINES }))
  const metrics = useApi<{ metrics: { epochs: Epoch[] } & Record<string, unknown> }>(
    log.data ? `${path}/metrics` : null,
    { every: false },
  )
  const events = useApi<RunEvents>(log.data ? `${path}/events` : null, { every: false })
  const artifacts = useApi<ArtifactList>(run.data?.status === 'completed' ? `${path}/artifacts` : null, {
    every: false,
  })
  const feed = useRunFeed(runId, log.data?.after, isOpen)
  const epochs = useMemo(
    () =>
      joined(metrics.data?.metrics.epochs ?? [], feed.epochs, ({ epoch }) => epoch).toSorted(
        (a, b) => a.epoch - b.epoch,
      ),
    [metrics.data, feed.epochs],
  )
  const { x, curves } = useMemo(() => lossCurves(epochs), [epochs])
  const logEvents = joined(
    events.data?.events ?? [],
    feed.events,
    ({ timestamp, event_type }) => `${timestamp} ${event_type}`,
  )
  const progress = feed.progress ?? run.data?.progress

  if (!run.data) return <Loading error={run.error} what="run" />
  const measured = { ...run.data.metrics, ...metrics.data?.metrics }
  const scalars = Object.entries(measured).filter(([, value]) => typeof value !== 'object')
  return (
    <Page
      title={run.data.job_name}
      lead={<RunState of={run.data} />}
      actions={
        mayChange && (
          <RunActions run={run.data} isOpen={isOpen} onAgain={() => setRepeated(true)} onError={setError} />
        )
      }
    >
      {error && <Failure error={error} what="change" />}
      {isRepeated && (
        <Suspense fallback={<Loading error={null} what="form" />}>
          <AgainForm run={run.data} onClose={() => setRepeated(false)} />
        </Suspense>
      )}
      <StateNote {...stateOfRun(run.data)} why={run.data.error_message ?? whyItWaits(run.data)} />
      {isOpen && progress && <RunProgress of={progress} />}
      <Panel title="Losses">
        {x.length > 0 && curves.length > 0 ? (
          <Chart label={`Losses of ${run.data.job_name} by epoch`} xName="Epoch" x={x} curves={curves} />
        ) : (
          <Text c="dimmed">{isOpen ? 'The first epoch has not ended yet.' : 'This run has no losses.'}</Text>
        )}
        <RunMeasures run={run.data} epochs={epochs} scalars={scalars} />
        <LeftOutColumns of={measured['left_out_columns']} />
        <DataWarnings of={measured['warnings']} />
      </Panel>
      {mayChange && run.data.version_id !== null && <RegisterForm run={run.data} />}
      <RunLog runId={runId} read={log.data} live={feed.lines} isOpen={isOpen} />
      <Panel title="Events">
        <Table aria-label="events" verticalSpacing={6}>
          <Table.Tbody>
            {logEvents.map((event) => (
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
                cell: ({ filename }) => <Download runId={runId} filename={filename} onError={setError} />,
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
            ...workflow,
            Took: <Lasted from={run.data.started_at} to={run.data.completed_at} />,
          }}
        />
        <Json of={run.data.hyperparameters} label="hyperparameters" />
      </Panel>
    </Page>
  )
}

/** For a pending run: why no node takes it, or its position in the queue. */
function whyItWaits({ status, paused, waiting, queue_position: before }: Run): ReactNode {
  if (waiting)
    return (
      <>
        Since <Time at={waiting.since} />: {waiting.reason}.
      </>
    )
  if (status !== 'pending' || paused) return undefined
  if (before)
    return `${number(before)} ${before === 1 ? 'run is' : 'runs are'} before it on the same hardware.`
  return before === 0 ? 'It is next on its hardware.' : undefined
}

function Download({
  runId,
  filename,
  onError,
}: {
  runId: string
  filename: string
  onError: (error: Error) => void
}) {
  async function open() {
    const { download_urls } = await client().runs.downloadUrls(runId, { files: filename })
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
