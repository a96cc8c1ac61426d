import assert from 'node:assert/strict'
import { presentTask } from '../../../../../api/routes/builder/tasks/present.ts'
import type { TaskRow } from '../../../../../db/tables/inference.ts'
import { newId } from '../../../../../domain/ids.ts'
import type { NodeSnapshot } from '../../../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../../../domain/placement/placement.ts'
import { DownloadMeter, type DownloadProgress } from '../../../../../node-runtime/weights/download-meter.ts'
import type { NodeEnvironment, NodeModel } from '../../../../../schemas/nodes/node.ts'

const ROW: TaskRow = {
  id: newId(),
  endpoint_id: newId(),
  surface: 'infer',
  status: 'claimed',
  status_detail: null,
  model_state: 'cold',
  model_key: 'm',
  node_id: 'a',
  created_at: new Date(),
  completed_at: null,
} as unknown as TaskRow
const INSTALLING: NodeEnvironment = {
  name: 'llm',
  profiles: ['llm-transformers'],
  state: 'installing',
  progress: 0.25,
  eta_s: 180,
}

const NODE: NodeSnapshot = {
  node_id: 'a',
  account_id: newId(),
  sharing: 'shared',
  hardware: 'cpu',
  profiles: ['specialist-onnx'],
  cpus: 2,
  memory_total_mb: 1_000,
  memory_free_mb: 1_000,
  load: 0,
  draining: false,
  models: [],
}

async function detailOf(row: TaskRow, model?: Partial<NodeModel>, environment?: NodeEnvironment) {
  const placement = new PlacementIndex()
  const models: NodeModel[] = model
    ? [{ model_key: 'm', state: 'cold', memory_mb: 1, in_flight: 0, ...model }]
    : []
  placement.put({ ...NODE, models, environments: environment ? [environment] : [] })
  const objects = { signGet: () => Promise.reject(new Error('there is no result to sign')) }
  const { status_detail } = await presentTask({ objects, links: { placement } }, row, 'specialist-onnx')
  return status_detail
}

describe("a task's progress", () => {
  it("is the environment's when nothing is left to download, even during a conversion", async () => {
    for (const bytes of [{}, { bytes_total: 10, bytes_downloaded: 10 }]) {
      const detail = await detailOf(ROW, { state: 'downloading_model', ...bytes }, INSTALLING)

      assert.deepEqual([detail?.status, detail?.progress_pct], ['preparing', 25])
      assert.equal(detail?.metadata['eta_seconds'], 180)
    }
    const half = { state: 'downloading_model', bytes_total: 10, bytes_downloaded: 5 } as const
    assert.equal((await detailOf(ROW, half, INSTALLING))?.status, 'downloading_model')
  })

  it("drops the holder's step once the task has ended, and keeps other details", async () => {
    const uploading = { status: 'uploading_output', progress_pct: 0, metadata: { files: 1 } }
    const cohort = { status: 'finishing', progress_pct: 100, metadata: {} }

    assert.equal(await detailOf({ ...ROW, status: 'succeeded', status_detail: uploading } as TaskRow), null)
    assert.deepEqual(
      await detailOf({ ...ROW, status: 'succeeded', status_detail: cohort } as unknown as TaskRow),
      cohort,
    )
  })
})

describe('a download whose files are on disk', () => {
  it('reports that the files are present', () => {
    const reports: DownloadProgress[] = []
    const meter = new DownloadMeter(30, (progress) => reports.push(progress))
    meter.skip(10)
    meter.skip(20)

    assert.deepEqual(reports.at(-1), {
      bytes_downloaded: 30,
      bytes_total: 30,
      download_speed_mbps: 0,
      eta_seconds: 0,
    })
  })
})
