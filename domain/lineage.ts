interface Version {
  id: string
  name: string
  model_config_id: string
  lifecycle_status: string
  base_model_version_id: string | null
  parent_job_id: string | null
  job_id: string | null
  job_type: 'training' | 'merge' | null
  job_name: string | null
  job_base: { type: string; repo_id?: string; revision?: string; uri?: string } | null
  job_base_model: string | null
  dataset_id: string | null
  dataset_name: string | null
  repo_id: string | null
  revision: string | null
}

interface Source {
  version_id: string
  source_version_id: string
  role: string
  weight: number | null
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

/** The graph of versions and what they were made of; an edge points from what was there to what came of it. */
export function lineageGraph(versions: readonly Version[], sources: readonly Source[]): LineageGraph {
  const nodes = new Map<string, LineageGraph['nodes'][number]>()
  const edges = new Map<string, LineageGraph['edges'][number]>()
  const node = (
    type: NodeType,
    key: string,
    label: string,
    details: Record<string, unknown> = {},
  ): string => {
    const id = `${type}:${key}`
    if (!nodes.has(id)) nodes.set(id, { id, type, label, details })
    return id
  }
  const edge = (from: string, to: string, relation: Relation): void =>
    void edges.set(`${from} ${to} ${relation}`, { from, to, relation })

  const known = new Map(
    versions.map((version) => [
      version.id,
      node('version', version.id, version.name, {
        version_id: version.id,
        lifecycle_status: version.lifecycle_status,
      }),
    ]),
  )
  const maker = new Map<string, string>()
  for (const version of versions) {
    const self = known.get(version.id) ?? ''
    const job = addMaker(version, { node, edge })
    if (job) edge(job, self, 'produced')
    maker.set(version.id, job ?? self)
    if (version.repo_id) {
      const repo = node('hub_repo', version.repo_id, version.repo_id, { revision: version.revision })
      edge(repo, self, 'imported_as')
    }
  }
  for (const version of versions) {
    const base = version.base_model_version_id && known.get(version.base_model_version_id)
    const to = maker.get(version.id)
    const isMerged = sources.some(({ version_id }) => version_id === version.id)
    if (base && to && !isMerged) edge(base, to, 'based_on')
  }
  for (const { version_id, source_version_id } of sources) {
    const [from, to] = [known.get(source_version_id), maker.get(version_id)]
    if (from && to) edge(from, to, 'merged_from')
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] }
}

interface Draw {
  node: (type: NodeType, key: string, label: string, details?: Record<string, unknown>) => string
  edge: (from: string, to: string, relation: Relation) => void
}

/** The job a version came out of, with what that job was given. */
function addMaker(version: Version, { node, edge }: Draw): string | undefined {
  if (!version.job_id) return undefined
  const type = version.job_type === 'merge' ? 'merge' : 'job'
  const job = node(type, version.job_id, version.job_name ?? version.job_id, { job_id: version.job_id })
  if (type === 'job')
    edge(node('model_config', version.model_config_id, version.model_config_id), job, 'configured_by')
  if (version.dataset_id) {
    const { dataset_id } = version
    edge(node('dataset', dataset_id, version.dataset_name ?? dataset_id, { dataset_id }), job, 'trained_on')
  }
  const { job_base: base, parent_job_id: parent } = version
  const repo = base?.type === 'hf' ? base.repo_id : base ? undefined : (version.job_base_model ?? undefined)
  if (repo && type === 'job') {
    edge(node('hub_repo', repo, repo, { revision: base?.revision ?? null }), job, 'based_on')
  }
  if (base?.type === 'storage' && base.uri) edge(node('storage', base.uri, base.uri), job, 'based_on')
  if (parent) edge(node('job', parent, parent, { job_id: parent }), job, 'continued')
  return job
}
