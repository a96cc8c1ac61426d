/** A reference from a run or a merge to a model that isn't a version. */
interface ExternalRef {
  type: string
  repo_id?: string
  revision?: string
  uri?: string
}

/** One version of the lineage, with the job that created it. */
export interface LineageVersion {
  id: string
  name: string
  model_config_id: string
  lifecycle_status: string
  base_model_version_id: string | null
  job_id: string | null
  job_type: 'training' | 'merge' | null
  job_name: string | null
  job_base: ExternalRef | null
  job_base_model: string | null
  /** The commit at which the run downloaded its base from the hub. */
  job_base_revision: string | null
  /** The columns that the run left out, from its metrics. */
  left_out_columns?: unknown
  merge_method: string | null
  parent_id: string | null
  parent_type: 'training' | 'merge' | null
  parent_name: string | null
  dataset_id: string | null
  /** Null for a dataset that the account may not read. */
  dataset_name: string | null
  repo_id: string | null
  revision: string | null
}

/** One model that a version was merged from: a version, or the model in `ref`. */
export interface LineageSource {
  version_id: string
  role: string
  /** Null for a model that isn't a version; `ref` then has its location. */
  source_version_id: string | null
  ref: ExternalRef | null
}

type NodeType = 'version' | 'job' | 'merge' | 'dataset' | 'hub_repo' | 'model_config' | 'storage'
type Relation =
  | 'produced'
  | 'trained_on'
  | 'based_on'
  | 'merged_from'
  | 'imported_as'
  | 'configured_by'
  | 'continued'

export interface LineageGraph {
  nodes: { id: string; type: NodeType; label: string; details: Record<string, unknown> }[]
  edges: { from: string; to: string; relation: Relation }[]
}

/** Builds the graph of versions and their inputs. Edges point from an input to the model made from it. */
export function lineageGraph(
  versions: readonly LineageVersion[],
  sources: readonly LineageSource[],
): LineageGraph {
  const drawing = new LineageGraphBuilder()
  const byId = new Map(versions.map((version) => [version.id, version]))
  const makers = new Map<string, string>()
  for (const version of versions) {
    const self = drawing.version(version)
    const maker = drawMaker(drawing, version)
    if (maker) drawing.edge(maker, self, 'produced')
    makers.set(version.id, maker ?? self)
    if (version.repo_id) {
      const { repo_id, revision } = version
      drawing.edge(drawing.repository(repo_id, revision), self, 'imported_as')
    }
  }
  const merged = new Set(sources.map(({ version_id }) => version_id))
  for (const version of versions) {
    const to = makers.get(version.id)
    const base = to && !merged.has(version.id) && drawBase(drawing, version, byId)
    if (base) drawing.edge(base, to, 'based_on')
  }
  for (const source of sources) {
    const to = makers.get(source.version_id)
    const from = to && hasPart(source, byId) && drawSource(drawing, source, byId)
    if (from) drawing.edge(from, to, 'merged_from')
  }
  return drawing.graph()
}

/** Adds the job that produced a version, and the job's inputs other than its base. */
function drawMaker(drawing: LineageGraphBuilder, version: LineageVersion): string | undefined {
  const { job_id, job_type, job_name, model_config_id, dataset_id, dataset_name } = version
  if (!job_id) return undefined
  const job = drawing.job({ id: job_id, type: job_type, name: job_name })
  if (job_type !== 'merge') {
    drawing.edge(drawing.node('model_config', model_config_id, model_config_id), job, 'configured_by')
  }
  if (dataset_id) {
    const label = dataset_name ?? 'a dataset of another account'
    drawing.edge(drawing.node('dataset', dataset_id, label, { dataset_id }), job, 'trained_on')
  }
  const { parent_id, parent_type, parent_name } = version
  if (parent_id) {
    const parent = drawing.job({ id: parent_id, type: parent_type, name: parent_name })
    drawing.edge(parent, job, 'continued')
  }
  return job
}

/** Adds the base of a version: another version, an address in the object store, or a hub repository. */
function drawBase(
  drawing: LineageGraphBuilder,
  version: LineageVersion,
  byId: ReadonlyMap<string, LineageVersion>,
): string | undefined {
  const { base_model_version_id, job_base, job_base_model, job_base_revision } = version
  const base = base_model_version_id === null ? undefined : byId.get(base_model_version_id)
  if (base_model_version_id !== null && !base) return undefined
  // The version imported from this repository may be at a different commit than the one that the run downloaded.
  const isAsFetched = base?.repo_id === null || job_base_revision === null
  if (base && (isAsFetched || base.revision === job_base_revision)) return drawing.version(base)
  if (version.job_type !== 'training') return undefined
  if (job_base?.type === 'storage') return job_base.uri && drawing.storage(job_base.uri)
  // A run that names an `hf` base still has the base of its config in `job_base_model`.
  if (job_base && job_base.type !== 'hf') return undefined
  return job_base_model === null ? undefined : drawing.repository(job_base_model, job_base_revision)
}

/** `slerp` does not use its base in the computation. */
const hasPart = ({ version_id, role }: LineageSource, byId: ReadonlyMap<string, LineageVersion>): boolean =>
  role !== 'base' || byId.get(version_id)?.merge_method !== 'slerp'

function drawSource(
  drawing: LineageGraphBuilder,
  { source_version_id, ref }: LineageSource,
  byId: ReadonlyMap<string, LineageVersion>,
): string | undefined {
  const version = source_version_id === null ? undefined : byId.get(source_version_id)
  if (version) return drawing.version(version)
  if (ref?.type === 'storage' && ref.uri) return drawing.storage(ref.uri)
  if (ref?.type === 'hf' && ref.repo_id) return drawing.repository(ref.repo_id, ref.revision ?? null)
  return undefined
}

/** Collects nodes and edges; duplicates are added once. */
class LineageGraphBuilder {
  readonly #nodes = new Map<string, LineageGraph['nodes'][number]>()
  readonly #edges = new Map<string, LineageGraph['edges'][number]>()

  node(type: NodeType, key: string, label: string, details: Record<string, unknown> = {}): string {
    const id = `${type}:${key}`
    if (!this.#nodes.has(id)) this.#nodes.set(id, { id, type, label, details })
    return id
  }

  version({ id, name, lifecycle_status, left_out_columns: leftOut }: LineageVersion): string {
    const details = { version_id: id, lifecycle_status }
    return this.node('version', id, name, leftOut ? { ...details, left_out_columns: leftOut } : details)
  }

  job({ id, type, name }: { id: string; type: LineageVersion['job_type']; name: string | null }): string {
    return this.node(type === 'merge' ? 'merge' : 'job', id, name ?? id, { job_id: id })
  }

  /** One repository at two commits counts as two models. */
  repository(repo_id: string, revision: string | null): string {
    const key = revision === null ? repo_id : `${repo_id}@${revision}`
    return this.node('hub_repo', key, repo_id, { repo_id, revision })
  }

  storage(uri: string): string {
    return this.node('storage', uri, uri, { uri })
  }

  edge(from: string, to: string, relation: Relation): void {
    this.#edges.set(`${from} ${to} ${relation}`, { from, to, relation })
  }

  graph(): LineageGraph {
    return { nodes: [...this.#nodes.values()], edges: [...this.#edges.values()] }
  }
}
