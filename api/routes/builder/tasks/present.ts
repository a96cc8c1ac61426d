import type { ShownTask } from '../../../../db/repositories/tasks/shown.ts'
import { canMoveTask, isTerminalTask, taskStatusOf } from '../../../../domain/inference-task.ts'
import { missingEnvironment } from '../../../../domain/placement/node-snapshot.ts'
import type { PlacementIndex } from '../../../../domain/placement/placement.ts'
import type { ObjectStore } from '../../../../platform/object-store/store.ts'
import type { InferenceTask, StatusDetail, TaskStatus } from '../../../../schemas/inference-task.ts'
import type { NodeEnvironment, NodeModel } from '../../../../schemas/nodes/node.ts'
import { presentResult } from '../../../inference/task-result.ts'

type Placement = Pick<PlacementIndex, 'model' | 'environments'>

/** Returns whether a task's node still has environments to install, which the model's profile may or may not need. */
export const hasUnreadyNode = ({ status, node_id }: ShownTask, placement: Placement): boolean =>
  node_id !== null &&
  !isTerminalTask(status) &&
  placement.environments(node_id).some(({ state }) => state !== 'ready')

/** Steps that the lease holder reports through its lease; the node's report only shows that the model is running. */
const TOLD_BY_LEASE: ReadonlySet<TaskStatus> = new Set(['generating', 'uploading_output'])

/**
 * Returns a task as callers see it. While its node prepares the model, the progress comes from the node's reports. If
 * the model's runtime profile is given, the progress also includes the installation of the environment.
 */
export async function presentTask(
  {
    objects,
    links: { placement },
  }: { objects: Pick<ObjectStore, 'signGet'>; links: { placement: Placement } },
  row: ShownTask,
  profileId?: string,
): Promise<InferenceTask> {
  const isOpen = !isTerminalTask(row.status) && !TOLD_BY_LEASE.has(row.status)
  const live = isOpen ? liveDetail(row, placement, profileId) : undefined
  const step = live && taskStatusOf(live.status)
  return {
    task_id: row.id,
    endpoint_id: row.endpoint_id,
    surface: row.surface,
    status: step && canMoveTask(row.status, step) ? step : row.status,
    status_detail: live ?? lastDetail(row),
    model_state: row.model_state,
    result: await presentResult(objects, row),
    error: row.status === 'failed' ? row.error : null,
    inference_time_ms: row.inference_time_ms,
    created_at: row.created_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  }
}

/** Drops the lease holder's steps once the task has ended; other details, such as a cohort's, stay. */
const lastDetail = ({ status, status_detail: detail }: ShownTask): StatusDetail | null =>
  detail && isTerminalTask(status) && TOLD_BY_LEASE.has(taskStatusOf(detail.status) ?? status) ? null : detail

function liveDetail(
  row: ShownTask,
  placement: Placement,
  profileId: string | undefined,
): StatusDetail | undefined {
  if (row.status === 'queued' || !row.node_id) return undefined
  const model = placement.model(row.node_id, row.model_key)
  const environments = placement.environments(row.node_id)
  const missing = profileId === undefined ? undefined : missingEnvironment({ environments }, profileId)
  switch (model?.state) {
    case 'downloading_model':
      // Download and installation run in parallel; report the download first. When nothing is left to download, the
      // node is waiting for the environment of the server, or of the conversion that precedes it.
      if (percent(model) === 100 || model.bytes_total === undefined) {
        const awaited = missing ?? environments.find(({ state }) => state === 'installing')
        if (awaited) return installation(row, awaited)
      }
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
      // The node has the task but has not started the model: it is freeing memory or installing the environment.
      if (missing && row.status !== 'assigned') return installation(row, missing)
      return row.status === 'claimed'
        ? { status: 'preparing', progress_pct: 0, metadata: { model_id: row.model_key } }
        : undefined
  }
}

function installation({ model_key }: ShownTask, environment: NodeEnvironment): StatusDetail {
  const { name, state, progress = 0, eta_s, error } = environment
  const minutes = Math.ceil((eta_s ?? 0) / 60)
  const message =
    state === 'failed'
      ? `the environment ${name} could not be installed; the node will try again: ${error ?? 'unknown reason'}`
      : `installing the environment ${name} for this model, once per machine: about ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} left`
  return {
    status: 'preparing',
    progress_pct: Math.min(100, Math.round(100 * progress)),
    metadata: {
      model_id: model_key,
      environment: name,
      message,
      ...(eta_s !== undefined && { eta_seconds: eta_s }),
    },
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
