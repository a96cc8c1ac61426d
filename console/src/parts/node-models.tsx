import { Progress, Text } from '@mantine/core'
import { bytes, seconds } from '../format.ts'
import type { NodeDetail } from '../types.ts'
import { DataTable } from './data-table.tsx'
import { Panel } from './page.tsx'

type NodeModel = NodeDetail['models'][number]

/** The models on a node, and what the node does with them. */
export function NodeModels({ of }: { of: NodeDetail }) {
  const pinned = new Set(of.pinned_models)
  return (
    <Panel title="Models">
      <DataTable
        caption="models of the node"
        rows={of.models}
        idOf={({ model_key }) => model_key}
        empty="It has no models. The first request for a model loads it."
        columns={[
          { head: 'Model', cell: ({ model_key }) => <span className="mono">{model_key}</span> },
          {
            head: 'State',
            state: ({ state, asleep }) => ({ as: 'nodeModel', of: asleep ? 'asleep' : state }),
            cell: (model) => <Loads model={model} />,
          },
          { head: 'In progress', align: 'right', cell: ({ in_flight }) => in_flight },
          { head: 'Memory', align: 'right', cell: ({ memory_mb }) => bytes(memory_mb * 1_000_000) },
          { head: 'GPUs', cell: ({ gpus }) => gpus?.join(', ') ?? '–' },
          { head: 'Kept', cell: ({ model_key }) => (pinned.has(model_key) ? 'yes, by an operator' : 'no') },
        ]}
      />
    </Panel>
  )
}

function Loads({ model }: { model: NodeModel }) {
  const {
    bytes_downloaded: got,
    bytes_total: all,
    load_progress_pct: read,
    eta_seconds: eta,
    error,
    engine_fault: fault,
  } = model
  const pct = got !== undefined && all ? (100 * got) / all : read
  return (
    <>
      {pct !== undefined && (model.state === 'downloading_model' || model.state === 'loading_model') && (
        <Progress value={pct} aria-label={`${Math.round(pct)} %`} />
      )}
      {typeof eta === 'number' && <Text size="xs">about {seconds(eta)} to go</Text>}
      {error && <Text size="xs">{error}</Text>}
      {fault && (
        <Text size="xs">
          served by {model.runtime_profile}, because {fault.runtime_profile} failed: {fault.error}
        </Text>
      )}
    </>
  )
}
