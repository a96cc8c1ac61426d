import assert from 'node:assert/strict'
import { createTrainingActivities } from '../../../../activities/control/training/runs.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import { filesBelow, writeCheckpoint } from '../../builders/models/checkpoints.ts'
import { llamaRepo } from '../../builders/models/hub-repos.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import { claimJob, putUnderLease, readyDataset, RESULT } from '../../builders/training.ts'
import type { AnyBody, TestApi } from '../api.ts'
import { commitOf, type TestHub } from '../hub-server.ts'
import { type SignedNode, signedNode } from '../nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'
const LLM = 'llm-qlora-finetune'
const TABULAR = 'tabular-regression'
const MODEL_FILES = ['model/config.json', 'model/model.safetensors']
const ADAPTER_FILES = ['adapter/adapter_config.json', 'adapter/adapter_model.safetensors']

export interface Caller {
  accountId: string
  key: string
}

/** A node of the expected graph, with the id that callers see. */
export interface LineageNode {
  id: string
  label: string
}

/** A model, with the part of the graph that its creation adds. */
export interface LineageModel {
  versionId: string
  jobId: string | null
  name: string
  owner: Caller
  config: string
  isFolder: boolean
  hasAdapter: boolean
  /** The base of an adapter that is among its files. */
  base: LineageModel | LineageNode | null
  nodes: LineageNode[]
  edges: [from: string, to: string, relation: string][]
  /** The other models whose graphs this graph includes. */
  from: LineageModel[]
}

export const isLineageModel = (one: LineageModel | LineageNode | null): one is LineageModel =>
  one !== null && 'versionId' in one
const nodeOf = (one: LineageModel | LineageNode): string =>
  isLineageModel(one) ? `version:${one.versionId}` : one.id

/** Creates models through the routes that callers and nodes use, and records the expected lineage. */
export class LineageWorld {
  readonly api: TestApi
  readonly #hub: TestHub
  #node: SignedNode | undefined
  #count = 0

  constructor(api: TestApi, hub: TestHub) {
    this.api = api
    this.#hub = hub
  }

  name(what: string): string {
    return `${what} ${++this.#count}`
  }

  async post(caller: Caller, path: string, body: object): Promise<AnyBody> {
    const answer = await this.api.call('POST', BUILDER + path, { key: caller.key, body })
    assert.ok(answer.status < 300, answer.text)
    return answer.body
  }

  async get(caller: Caller, path: string): Promise<AnyBody> {
    const answer = await this.api.call('GET', BUILDER + path, { key: caller.key })
    assert.equal(answer.status, 200, answer.text)
    return answer.body
  }

  /** Adds a commit to a repository; returns its node in the graph. */
  advance(repoId: string): LineageNode {
    const { files } = llamaRepo(repoId)
    const repo = llamaRepo(repoId, {
      files: { ...files, 'README.md': Buffer.from(this.name('commit')) },
    })
    this.#hub.put(repo)
    return { id: `hub_repo:${repoId}@${commitOf(repo)}`, label: repoId }
  }

  async import(owner: Caller, repo: LineageNode): Promise<LineageModel> {
    const { version_id, model_config_id } = await this.post(owner, '/models/hf/register', {
      repo_id: repo.label,
      task_type: 'text-generation',
    })
    const self = `version:${version_id}`
    return {
      versionId: version_id,
      jobId: null,
      name: repo.label,
      owner,
      config: model_config_id,
      isFolder: true,
      hasAdapter: false,
      base: null,
      nodes: [{ id: self, label: repo.label }, repo],
      edges: [[repo.id, self, 'imported_as']],
      from: [],
    }
  }

  /** Adds a model at a storage address of the account. */
  async store(owner: Caller): Promise<LineageNode> {
    using folder = temporaryFolder()
    writeCheckpoint(folder.path)
    const prefix = `accounts/${owner.accountId}/mine/${++this.#count}`
    for (const [path, bytes] of filesBelow(folder.path)) {
      await this.api.services.objects.put(`${prefix}/${path}`, bytes, { contentType: 'text/plain' })
    }
    return { id: `storage:s3://hearth/${prefix}/`, label: `s3://hearth/${prefix}/` }
  }

  async dataset(
    owner: Caller,
    kind: 'table' | 'text',
    visibility: 'private' | 'public',
  ): Promise<LineageNode> {
    const label = this.name('data')
    const columns = kind === 'text' ? { columns: ['instruction', 'output'] } : {}
    const id = await readyDataset(this.api, owner.accountId, { visibility, ...columns })
    const { db } = this.api.database
    await db.updateTable('dataset').set({ dataset_name: label }).where('id', '=', id).execute()
    return { id: `dataset:${id}`, label }
  }

  /** Takes a run from its request to its version. `base` is the actual starting model, `body` the request. */
  async run(
    owner: Caller,
    {
      dataset,
      base,
      parent = isLineageModel(base) && base.owner === owner ? base : null,
      body,
    }: {
      dataset: LineageNode
      base: LineageModel | LineageNode | null
      parent?: LineageModel | null
      body: object
    },
  ): Promise<LineageModel> {
    const name = this.name('run')
    const { job_id } = await this.post(owner, '/training/runs', {
      job_name: name,
      model_config_id: TABULAR,
      dataset_id: dataset.id.split(':')[1],
      ...body,
    })
    const config = (body as { model_config_id?: string }).model_config_id ?? TABULAR
    const isFolder = config === LLM
    const made = await this.#complete(owner, job_id, isFolder ? [...ADAPTER_FILES, ...MODEL_FILES] : [])
    const [self, job] = [`version:${made}`, `job:${job_id}`]
    const maker = parent?.jobId ? drawnJob(parent) : undefined
    return {
      versionId: made,
      jobId: job_id,
      name,
      owner,
      config,
      isFolder,
      hasAdapter: isFolder,
      base,
      nodes: [
        { id: self, label: name },
        { id: job, label: name },
        { id: `model_config:${config}`, label: config },
        dataset,
        ...(base && !isLineageModel(base) ? [base] : []),
        ...(maker ? [maker] : []),
      ],
      edges: [
        [job, self, 'produced'],
        [`model_config:${config}`, job, 'configured_by'],
        [dataset.id, job, 'trained_on'],
        ...(base ? [[nodeOf(base), job, 'based_on'] satisfies LineageModel['edges'][number]] : []),
        ...(maker ? [[maker.id, job, 'continued'] satisfies LineageModel['edges'][number]] : []),
      ],
      from: isLineageModel(base) ? [base] : [],
    }
  }

  /** Takes a merge from its request to its version. `parts` are the merged models, the base first. */
  async merge(
    owner: Caller,
    {
      parts,
      base,
      body,
    }: { parts: (LineageModel | LineageNode)[]; base: LineageModel | LineageNode | null; body: object },
  ): Promise<LineageModel> {
    const name = this.name('merge')
    const { job_id } = await this.post(owner, '/training/merges', { name, ...body })
    const made = await this.#complete(owner, job_id, MODEL_FILES)
    const [self, job] = [`version:${made}`, `merge:${job_id}`]
    const maker = isLineageModel(base) && base.owner === owner && base.jobId ? drawnJob(base) : undefined
    return {
      versionId: made,
      jobId: job_id,
      name,
      owner,
      config: LLM,
      isFolder: true,
      hasAdapter: false,
      base: null,
      nodes: [
        { id: self, label: name },
        { id: job, label: name },
        ...parts.flatMap((part) => (isLineageModel(part) ? [] : [part])),
        ...(maker ? [maker] : []),
      ],
      edges: [
        [job, self, 'produced'],
        ...parts.map((part): LineageModel['edges'][number] => [nodeOf(part), job, 'merged_from']),
        ...(maker ? [[maker.id, job, 'continued'] satisfies LineageModel['edges'][number]] : []),
      ],
      from: parts.filter((part) => isLineageModel(part)),
    }
  }

  /** Returns the lineage of a model from the route. */
  async lineageOf({ owner, versionId }: LineageModel): Promise<{ nodes: AnyBody[]; edges: AnyBody[] }> {
    const { model_id } = await this.post(owner, '/models', {
      name: `model of ${versionId}`,
      version_id: versionId,
    })
    return this.get(owner, `/models/${model_id}/lineage`)
  }

  /** Completes a job as a node and the workflow do. */
  async #complete({ key }: Caller, jobId: string, extra: readonly string[]): Promise<string> {
    const node = (this.#node ??= await signedNode(this.api))
    const { lease_token } = await claimJob(node, jobId)
    const artifacts = []
    for (const filename of ['manifest.json', ...extra]) {
      artifacts.push(
        await putUnderLease(node, lease_token, { kind: 'artifact', filename, text: `the ${filename}` }),
      )
    }
    const done = await node.post(`/api/v1/leases/${lease_token}:complete`, { artifacts, ...RESULT })
    assert.equal(done.status, 200, done.text)
    await createTrainingActivities(this.api.services).finishRun({ jobId, status: 'completed' })
    const { body } = await this.api.call('GET', `${BUILDER}/training/runs/${jobId}`, { key })
    assert.equal(body.status, 'completed', JSON.stringify(body))
    return body.version_id
  }
}

const drawnJob = ({ jobId, name, nodes }: LineageModel): LineageNode => ({
  id: nodes.find(({ id }) => id === `merge:${jobId}`)?.id ?? `job:${jobId}`,
  label: name,
})

export const refOf = (one: LineageModel | LineageNode, by: 'version' | 'job' = 'version'): ArtifactRef => {
  if (!isLineageModel(one)) {
    if (one.id.startsWith('storage:')) return { type: 'storage', uri: one.label }
    const revision = one.id.split('@')[1] ?? ''
    return { type: 'hf', repo_id: one.label, revision }
  }
  return by === 'job' && one.jobId
    ? { type: 'job', job_id: one.jobId }
    : { type: 'model_version', version_id: one.versionId }
}

/** Returns the expected lineage of a model: everything about it and its origins that its owner may see. */
export function expectedLineage(model: LineageModel): { nodes: LineageNode[]; edges: string[] } {
  const nodes = new Map<string, LineageNode>()
  const edges = new Set<string>()
  const walk = (one: LineageModel): void => {
    if (one !== model && nodes.has(`version:${one.versionId}`) && one.owner !== model.owner) return
    const isOwn = one.owner === model.owner
    const self = `version:${one.versionId}`
    for (const node of one.nodes) {
      if (isOwn || node.id === self || one.jobId === null) nodes.set(node.id, node)
    }
    for (const [from, to, relation] of one.edges) {
      const end = isOwn || one.jobId === null ? to : self
      const isShown = isOwn || one.jobId === null || from.startsWith('version:')
      if (isShown) edges.add(`${from} ${end} ${relation}`)
    }
    for (const next of one.from) walk(next)
  }
  walk(model)
  return {
    nodes: [...nodes.values()].toSorted((a, b) => a.id.localeCompare(b.id)),
    edges: [...edges].toSorted(),
  }
}

export function shownLineage({ nodes, edges }: { nodes: AnyBody[]; edges: AnyBody[] }) {
  return {
    nodes: nodes
      .map(({ id, label }): LineageNode => ({ id, label }))
      .toSorted((a, b) => a.id.localeCompare(b.id)),
    edges: edges.map(({ from, to, relation }) => `${from} ${to} ${relation}`).toSorted(),
  }
}
