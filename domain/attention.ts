import type { Attention, OpenWork } from '../schemas/operations.ts'

/** Facts about the platform that may need an operator's attention. */
export interface AttentionFacts {
  killSwitch: { active: boolean; reason: string | null }
  database: { status: string }
  temporal: { status: string }
  /** `freeMb` is the free space on the object store's disk, if known. */
  storage: { database: 'ok' | 'full'; objects: 'ok' | 'full'; freeMb?: number }
  offline: { count: number; some: readonly { id: string; name: string }[] }
  online: number
  gpuFaults: readonly { node_id: string; name: string; reason: string }[]
  /** Nodes that cannot reach the gate, or whose calls it rejects. */
  gateFaults: readonly { id: string; name: string; reason: string }[]
  fullNodes: readonly { node_id: string; name: string; free_mb: number }[]
  unplaced: { tasks: number; oldest_s: number | null; models: readonly string[] }
  waitingRuns: readonly { reason: string; jobs: number; job_id: string }[]
  failing: readonly { model_key: string; node: string; error: string }[]
  /** By model key: why fewer nodes than wanted hold the model. */
  short: ReadonlyMap<string, string>
  reviews: number
  work: readonly OpenWork[]
}

const SEVERITIES = ['critical', 'warning', 'notice'] as const
const MAX_TEXT = 300
/** Normally, workflows start almost immediately, and due deliveries go out within seconds. */
const START_TIMEOUT_S = 30
const DELIVERY_TIMEOUT_S = 120

type Finding = Omit<Attention, 'count' | 'subjects'> & Partial<Pick<Attention, 'count' | 'subjects'>>

/** Returns the findings that need an operator's attention, most severe first; empty when all is well. */
export function attentionOf(facts: AttentionFacts): Attention[] {
  const found = [...systems(facts), ...nodes(facts), ...waiting(facts), ...models(facts)]
  return SEVERITIES.flatMap((severity) => found.filter((finding) => finding.severity === severity)).map(
    ({ count = 1, subjects = [], ...finding }) => ({ ...finding, count, subjects }),
  )
}

function* systems({ killSwitch, database, temporal, storage }: AttentionFacts): Generator<Finding> {
  if (killSwitch.active)
    yield {
      kind: 'kill_switch',
      severity: 'critical',
      message: `The kill switch is active: ${killSwitch.reason ?? 'no reason given'}. New work is refused until it is deactivated.`,
    }
  for (const [name, { status }] of Object.entries({ PostgreSQL: database, Temporal: temporal })) {
    if (status === 'ok') continue
    yield {
      kind: 'system',
      severity: 'critical',
      message: `${name} is not responding to this gateway. Check that it is running and that the gateway can reach it over the network.`,
      subjects: [name],
    }
  }
  if (storage.database === 'full')
    yield {
      kind: 'storage_full',
      severity: 'critical',
      message:
        'The PostgreSQL disk is full. Writes fail with 503 and work is on hold. Free up disk space or enlarge the disk; work then resumes automatically.',
      subjects: ['PostgreSQL'],
    }
  if (storage.objects === 'full')
    yield {
      kind: 'storage_full',
      severity: 'critical',
      message: `The object store is full${storage.freeMb === undefined ? '' : ` (${storage.freeMb} MB free)`}. Uploads fail with 503, and runs and tasks cannot store their results. Delete datasets and runs, or enlarge the disk; work then resumes automatically.`,
      subjects: ['object store'],
    }
}

function* nodes({ offline, online, gpuFaults, gateFaults, fullNodes }: AttentionFacts): Generator<Finding> {
  for (const { node_id, name, reason } of gpuFaults)
    yield {
      kind: 'gpus_unusable',
      severity: 'critical',
      message: `Node ${name || node_id} cannot use its GPUs: ${cut(reason)}. Work placed on them fails. Check the node's NVIDIA driver.`,
      subjects: [node_id],
    }
  if (offline.count > 0) {
    const names = offline.some.map(({ id, name }) => name || id).join(', ')
    yield {
      kind: 'nodes_offline',
      severity: online === 0 ? 'critical' : 'warning',
      message: `${plural(offline.count, 'node')} offline: ${names}. Start the node again, or remove it if it is gone permanently.`,
      count: offline.count,
      subjects: offline.some.map(({ id }) => id),
    }
  }
  const [first] = gateFaults
  if (first) {
    const names = gateFaults.map(({ id, name }) => name || id).join(', ')
    yield {
      kind: 'gate_fault',
      severity: gateFaults.length >= online ? 'critical' : 'warning',
      message: `${plural(gateFaults.length, 'node')} not receiving all durable work: ${names}. ${first.name || first.id}: ${cut(first.reason)}. Run \`npx hearth doctor\` for instructions.`,
      count: gateFaults.length,
      subjects: gateFaults.map(({ id }) => id),
    }
  }
  const [full] = fullNodes
  if (full)
    yield {
      kind: 'node_disk_full',
      severity: fullNodes.length >= online ? 'critical' : 'warning',
      message: `${plural(fullNodes.length, 'node')} with a full disk: ${fullNodes.map(({ node_id, name, free_mb }) => `${name || node_id} (${free_mb} MB free)`).join(', ')}. They start no new runs. Free up disk space, or lower HEARTH_NODE_CACHE_GB on them; work then resumes automatically.`,
      count: fullNodes.length,
      subjects: fullNodes.map(({ node_id }) => node_id),
    }
}

function* waiting({ unplaced, waitingRuns, reviews, work }: AttentionFacts): Generator<Finding> {
  if (unplaced.tasks > 0)
    yield {
      kind: 'tasks_wait',
      severity: 'warning',
      message: `${plural(unplaced.tasks, 'task')} that no node can currently run, waiting for up to ${Math.round(unplaced.oldest_s ?? 0)} s: ${unplaced.models.join(', ')}. GET /api/v1/admin/placements shows the reason for each node.`,
      count: unplaced.tasks,
      subjects: [...unplaced.models],
    }
  for (const { reason, jobs, job_id } of waitingRuns)
    yield {
      kind: 'runs_wait',
      severity: 'warning',
      message: `${plural(jobs, 'run')} waiting: ${cut(reason)}`,
      count: jobs,
      subjects: [job_id],
    }
  const starts = late(work, 'workflow_start', START_TIMEOUT_S)
  if (starts)
    yield {
      kind: 'starts_wait',
      severity: 'critical',
      message: `${plural(starts.waiting, 'workflow')} not started for ${Math.round(starts.oldest_waiting_s ?? 0)} s. Gateways start them as soon as Temporal accepts them.`,
      count: starts.waiting,
    }
  const deliveries = late(work, 'webhook_delivery', DELIVERY_TIMEOUT_S)
  if (deliveries)
    yield {
      kind: 'deliveries_wait',
      severity: 'warning',
      message: `${plural(deliveries.waiting, 'webhook delivery', 'webhook deliveries')} overdue for ${Math.round(deliveries.oldest_waiting_s ?? 0)} s. Check that a worker is running.`,
      count: deliveries.waiting,
    }
  if (reviews > 0)
    yield {
      kind: 'reviews_wait',
      severity: 'notice',
      message: `${plural(reviews, 'public endpoint')} waiting for review.`,
      count: reviews,
    }
}

function* models({ failing, short }: AttentionFacts): Generator<Finding> {
  for (const { model_key, node, error } of failing)
    yield {
      kind: 'model_fails',
      severity: 'warning',
      message: `${model_key} failed to load on ${node}: ${cut(error)}`,
      subjects: [model_key],
    }
  for (const [modelKey, why] of short)
    yield {
      kind: 'too_few_warm',
      severity: 'warning',
      message: `${modelKey} is kept warm on fewer nodes than wanted: ${cut(why)}`,
      subjects: [modelKey],
    }
}

const late = (work: readonly OpenWork[], kind: OpenWork['kind'], seconds: number): OpenWork | undefined =>
  work.find((open) => open.kind === kind && (open.oldest_waiting_s ?? 0) > seconds)

const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`

const cut = (text: string): string => text.slice(0, MAX_TEXT)
