import {
  checkHubRepo,
  type HubSurroundings,
  type HubTask,
  type HubVerdict,
} from '../../../domain/hub-compatibility.ts'
import { type ModelShape, readModelShape } from '../../../domain/model-shape.ts'
import { HubError, type HubRepoInfo } from '../../../platform/hub.ts'
import type { HubEntry } from '../../../schemas/hub.ts'
import type { Services } from '../../services.ts'

type Needs = Pick<Services, 'hub' | 'catalog' | 'links'>

/** A repository, and whether and how it can be served here. */
export interface HubLook {
  info: HubRepoInfo
  verdict: HubVerdict
}

export interface LookOptions {
  task?: HubTask | undefined
  revision?: string | undefined
  /** Also reads config.json and tries the gate: two requests more. */
  thorough: boolean
}

/** Asks the hub for a repository and judges it. */
export async function lookAtRepo(services: Needs, repoId: string, options: LookOptions): Promise<HubLook> {
  const { hub, catalog, links } = services
  const info = await hub.info(repoId, options.revision)
  const { access, shape } = options.thorough
    ? await lookInside(services, info)
    : { access: accessUntried(services, info), shape: null }
  const nodes = links.snapshot().filter(({ draining }) => !draining)
  const verdict = checkHubRepo(info, {
    task: options.task,
    profiles: catalog.profiles,
    largestNodeMb: nodes.length > 0 ? Math.max(...nodes.map((node) => node.memory_total_mb)) : undefined,
    access,
    pageUrl: hub.pageUrl(repoId),
    shape,
  })
  return { info, verdict }
}

const accessUntried = ({ hub }: Needs, { gated }: HubRepoInfo): HubSurroundings['access'] =>
  gated && !hub.hasToken ? 'no_token' : 'unknown'

async function lookInside(
  { hub }: Needs,
  info: HubRepoInfo,
): Promise<{ access: HubSurroundings['access']; shape: ModelShape | null }> {
  const config = info.files.find(({ path }) => path === 'config.json')
  try {
    if (config) {
      const bytes = await hub.read(info, config)
      return { access: 'granted', shape: readModelShape(parse(bytes)) }
    }
    const first = info.files[0]
    if (first) await hub.checkAccess(info, first.path)
    return { access: 'granted', shape: null }
  } catch (err) {
    if (!(err instanceof HubError)) throw err
    if (err.code === 'gated_no_token') return { access: 'no_token', shape: null }
    if (err.code === 'gated_refused') return { access: 'refused', shape: null }
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

/** Contract 2.9. */
export const presentHubEntry = ({ info, verdict }: HubLook): HubEntry => ({
  repo_id: info.repoId,
  size_mb: Math.round((verdict.sizeBytes / MB) * 100) / 100,
  compatibility: verdict.compatibility,
  estimated_requirements: verdict.requirements,
  revision: info.revision,
  downloads: info.downloads,
  licence: info.licence,
  gated: info.gated,
  pipeline_tag: info.pipelineTag,
})
