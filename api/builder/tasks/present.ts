import type { TaskRow } from '../../../db/tables/inference.ts'
import { canMoveTask, isTerminalTask, taskStatusOf } from '../../../domain/inference-task.ts'
import type { PlacementIndex } from '../../../domain/placement.ts'
import type { InferenceTask, StatusDetail } from '../../../schemas/inference-task.ts'
import type { NodeModel } from '../../../schemas/node.ts'

/** A task as callers see it. While its node prepares the model, the node's own reports say how far that is. */
export function presentTask(row: TaskRow, placement: Pick<PlacementIndex, 'model'>): InferenceTask {
  const live = isTerminalTask(row.status) ? undefined : liveDetail(row, placement)
  const step = live && taskStatusOf(live.status)
  return {
    task_id: row.id,
    endpoint_id: row.endpoint_id,
    status: step && canMoveTask(row.status, step) ? step : row.status,
    status_detail: live ?? row.status_detail,
    model_state: row.model_state,
    result: row.result ? (JSON.parse(row.result.toString()) as Record<string, unknown>) : null,
    error: row.status === 'failed' ? row.error : null,
    inference_time_ms: row.inference_time_ms,
    created_at: row.created_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  }
}

function liveDetail(row: TaskRow, placement: Pick<PlacementIndex, 'model'>): StatusDetail | undefined {
  if (row.status === 'queued' || !row.node_id) return undefined
  const model = placement.model(row.node_id, row.model_key)
  switch (model?.state) {
    case 'downloading_model':
      return { status: 'downloading_model', progress_pct: percent(model), metadata: download(model) }
    case 'loading_model': {
      const status = model.warming_up === true ? 'warming_up' : 'loading_model'
      return { status, progress_pct: model.load_progress_pct ?? 0, metadata: { model_id: model.model_key } }
    }
    case 'warm':
    case 'running':
    case 'idle':
      return { status: 'running', progress_pct: 0, metadata: { model_id: model.model_key } }
    case 'cold':
    case 'evicted':
    case undefined:
      // The node has the task and not begun with its model: it makes room, or installs what runs it.
      return row.status === 'claimed'
        ? { status: 'preparing', progress_pct: 0, metadata: { model_id: row.model_key } }
        : undefined
  }
}

const percent = ({ bytes_downloaded = 0, bytes_total = 0 }: NodeModel): number =>
  bytes_total > 0 ? Math.min(100, Math.floor((100 * bytes_downloaded) / bytes_total)) : 0

const download = (model: NodeModel): Record<string, unknown> => ({
  model_id: model.model_key,
  ...(model.bytes_downloaded !== undefined && { bytes_downloaded: model.bytes_downloaded }),
  ...(model.bytes_total !== undefined && { bytes_total: model.bytes_total }),
  ...(model.download_speed_mbps !== undefined && { download_speed_mbps: model.download_speed_mbps }),
  ...(model.eta_seconds !== undefined && { eta_seconds: model.eta_seconds }),
  ...(model.rate_limited_s !== undefined && { rate_limited: true, retry_after_s: model.rate_limited_s }),
})
