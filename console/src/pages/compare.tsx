import { Select, Table } from '@mantine/core'
import { useQueries } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../api.ts'
import { measure } from '../format.ts'
import { Chart } from '../parts/chart.tsx'
import { PageLink } from '../parts/link.tsx'
import { Loading, Page, Panel } from '../parts/page.tsx'
import { compareCurves } from '../parts/runs/curves.ts'
import { RunState } from '../parts/state.tsx'
import { Wide } from '../parts/wide.tsx'
import type { Epoch, Run } from '../types.ts'
import { MAX_COMPARED } from './runs.tsx'

interface ComparedRun {
  run: Run
  dataset: string | null
  epochs: Epoch[]
}

/** Compares several runs: a chart with one loss of each run, and the settings in which they differ. */
export function Compare() {
  const { runs: wanted = '' } = useSearch({ from: '/compare' })
  const ids = wanted.split(',').filter(Boolean).slice(0, MAX_COMPARED)
  const [loss, setLoss] = useState('train_loss')
  const results = useQueries({
    queries: ids.map((id) => ({
      queryKey: ['compare', id],
      queryFn: () => read(id),
      // The curve of a run that has ended is complete.
      refetchInterval: ({ state }: { state: { data?: ComparedRun | undefined } }) =>
        state.data && isEnded(state.data.run) ? false : 4_000,
    })),
  })
  const found = results.flatMap(({ data }) => data ?? [])
  if (found.length < ids.length)
    return <Loading error={results.find(({ error }) => error)?.error ?? null} what="runs to compare" />

  const named = found.map(({ run, epochs }, at) => ({ name: `${at + 1}. ${run.job_name}`, epochs }))
  const { x, curves } = compareCurves(named, loss)
  return (
    <Page
      title="Compare runs"
      actions={
        <Select
          aria-label="Loss"
          data={[
            { value: 'train_loss', label: 'Training loss' },
            { value: 'val_loss', label: 'Validation loss' },
            { value: 'eval_loss', label: 'Evaluation loss' },
          ]}
          value={loss}
          onChange={(value) => value && setLoss(value)}
          allowDeselect={false}
        />
      }
    >
      <Panel title="Losses">
        <Chart label="The losses of these runs by epoch" xName="Epoch" x={x} curves={curves} />
      </Panel>
      <Differences of={found} />
    </Page>
  )
}

const isEnded = ({ status }: Run): boolean => status !== 'pending' && status !== 'running'

function Differences({ of }: { of: readonly ComparedRun[] }) {
  const rows = of.map(({ run, dataset }) => ({
    'model config': run.model_config_id,
    dataset,
    ...Object.fromEntries(Object.entries(run.hyperparameters).map(([name, value]) => [name, asGiven(value)])),
    ...Object.fromEntries(Object.entries(run.metrics).filter(([, value]) => typeof value !== 'object')),
  })) as Record<string, unknown>[]
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return (
    <Panel title="Settings and metrics">
      <Wide label="settings and metrics">
        <Table aria-label="settings and metrics">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              {of.map(({ run }, at) => (
                <Table.Th key={run.job_id}>
                  <PageLink to="/runs/$runId" params={{ runId: run.job_id }}>
                    {at + 1}. {run.job_name}
                  </PageLink>
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            <Table.Tr>
              <Table.Th scope="row">state</Table.Th>
              {of.map(({ run }) => (
                <Table.Td key={run.job_id}>
                  <RunState of={run} />
                </Table.Td>
              ))}
            </Table.Tr>
            {names.map((name) => {
              const values = rows.map((row) => (row[name] === undefined ? '–' : measure(row[name])))
              const isSame = values.every((value) => value === values[0])
              return (
                <Table.Tr key={name} fw={isSame ? 400 : 700}>
                  <Table.Th scope="row">{name.replaceAll('_', ' ')}</Table.Th>
                  {values.map((value, at) => (
                    <Table.Td key={of[at]?.run.job_id}>{value}</Table.Td>
                  ))}
                </Table.Tr>
              )
            })}
          </Table.Tbody>
        </Table>
      </Wide>
    </Panel>
  )
}

/** Shows a setting as it was entered: a seed has no digit separators. */
const asGiven = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value)

async function read(id: string): Promise<ComparedRun> {
  const { runs } = client()
  const [run, { metrics }] = await Promise.all([runs.get(id), runs.metrics(id)])
  return { run, dataset: await nameOf(run.dataset_id), epochs: metrics.epochs as Epoch[] }
}

/** A deleted dataset is known only by its id. */
async function nameOf(id: string | null): Promise<string | null> {
  if (id === null) return null
  const found = await client()
    .datasets.get(id)
    .catch(() => null)
  return found?.dataset_name ?? id
}
