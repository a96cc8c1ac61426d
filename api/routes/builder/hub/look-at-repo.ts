import {
  checkHubRepo,
  type CompatibilityContext,
  type HubTask,
  type HubVerdict,
  taskOfPipeline,
} from '../../../../domain/hub/compatibility.ts'
import { GGUF_HEAD_BYTES, isTextTask, readGgufHead } from '../../../../domain/hub/gguf.ts'
import {
  type ModelConfigFacts,
  readDecoder,
  readHead,
  readModules,
} from '../../../../domain/hub/specialists.ts'
import { chooseEncoderWeights, shardIndexOf, shardsOf } from '../../../../domain/hub/weights.ts'
import { quantizationOf } from '../../../../domain/models/readable.ts'
import { readModelShape } from '../../../../domain/models/shape.ts'
import { serves } from '../../../../domain/placement/node-snapshot.ts'
import { HubError, type HubRepoInfo } from '../../../../platform/hub/client.ts'
import type { HubEntry } from '../../../../schemas/hub.ts'
import type { RepoAccess } from '../../../hub/reader.ts'
import type { Services } from '../../../services.ts'

type Deps = Pick<Services, 'hub' | 'hubReader' | 'catalog' | 'links'>

/** A repository, and whether and how it can be served here. */
export interface RepoAssessment {
  info: HubRepoInfo
  verdict: HubVerdict
}

export interface LookOptions {
  task?: HubTask | undefined
  /**
   * True to also read config.json and the shard index, and to test access, which takes three more requests. Otherwise
   * the hub's data may be a minute old.
   */
  thorough: boolean
}

/** Reads a repository from the hub and decides whether it can be served. */
export async function lookAtRepo(
  services: Deps,
  { accountId, repoId, revision }: { accountId: string; repoId: string; revision?: string | undefined },
  options: LookOptions,
): Promise<RepoAssessment> {
  const { hub, hubReader, catalog, links } = services
  const { info, isOpen } = options.thorough
    ? await hubReader.see(accountId, repoId, revision)
    : await hubReader.glance(accountId, repoId)
  const { access, ...inside } = await accessTo(services, { info, isOpen }, options)
  const nodes = links.snapshot().filter((node) => !node.draining && serves(node, accountId))
  const verdict = checkHubRepo(info, {
    task: options.task,
    profiles: catalog.profiles,
    largestNodeMb: nodes.length > 0 ? Math.max(...nodes.map((node) => node.memory_total_mb)) : undefined,
    access,
    pageUrl: hub.pageUrl(repoId),
    ...inside,
  })
  return { info, verdict }
}

type Access = Pick<
  CompatibilityContext,
  'access' | 'shape' | 'quantization' | 'shards' | 'gguf' | keyof ModelConfigFacts
>

const UNREAD = {
  shape: null,
  quantization: null,
  shards: null,
  head: null,
  decoder: null,
  modules: null,
  gguf: null,
} as const

function accessTo(
  services: Deps,
  { info, isOpen }: RepoAccess,
  { task, thorough }: LookOptions,
): Access | Promise<Access> {
  if (!isOpen) return { access: 'not_listed', ...UNREAD }
  if (thorough) return lookInside(services, info, task ?? taskOfPipeline(info.pipelineTag))
  return { access: info.gated && !services.hub.hasToken ? 'no_token' : 'unknown', ...UNREAD }
}

async function lookInside({ hub }: Deps, info: HubRepoInfo, task: HubTask | undefined): Promise<Access> {
  const fileAt = (wanted: string) => info.files.find(({ path }) => path === wanted)
  const [config, moduleList] = [fileAt('config.json'), fileAt('modules.json')]
  try {
    const index = shardIndexOf(info.files)
    const shards = index ? (shardsOf(parse(await hub.read(info, index))) ?? null) : null
    const modules = moduleList ? readModules(parse(await hub.read(info, moduleList))) : null
    const weights = isTextTask(task) ? chooseEncoderWeights(info.files, shards) : undefined
    const [part] = weights?.format === 'gguf' ? weights.files.toSorted() : []
    const start = part === undefined ? undefined : await hub.readStart(info, part, GGUF_HEAD_BYTES)
    const gguf = start ? (readGgufHead(start) ?? null) : null
    if (config) {
      const content = parse(await hub.read(info, config))
      return {
        access: 'granted',
        shape: readModelShape(content),
        head: readHead(content),
        decoder: readDecoder(content),
        quantization: quantizationOf(content),
        shards,
        modules,
        gguf,
      }
    }
    const first = info.files[0]
    if (first) await hub.checkAccess(info, first.path)
    return { ...UNREAD, access: 'granted', shards, modules, gguf }
  } catch (err) {
    if (!(err instanceof HubError)) throw err
    if (err.code === 'gated_no_token') return { access: 'no_token', ...UNREAD }
    if (err.code === 'gated_refused') return { access: 'refused', ...UNREAD }
    throw err
  }
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

const MB = 1024 * 1024

/** Returns the size of the files to download; for a repository that cannot be served, the size of all its files. */
function sizeMb({ files }: HubRepoInfo, verdict: HubVerdict): number | null {
  const bytes =
    verdict.files.length > 0 ? verdict.sizeBytes : files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  return bytes > 0 ? Math.max(0.01, Math.round((bytes / MB) * 100) / 100) : null
}

export const presentHubEntry = ({ info, verdict }: RepoAssessment): HubEntry => ({
  repo_id: info.repoId,
  size_mb: sizeMb(info, verdict),
  compatibility: verdict.compatibility,
  estimated_requirements: verdict.requirements,
  revision: info.revision,
  downloads: info.downloads,
  licence: info.licence,
  gated: info.gated,
  pipeline_tag: info.pipelineTag,
})
