import { rm } from 'node:fs/promises'
import { TOOL_PROFILE } from '../../domain/tools/catalog.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { Logger } from '../../platform/log.ts'
import type { Isolation } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import type { ContainerDriver } from '../processes/container-driver.ts'
import { CONTAINER_ISOLATION, toolIsolation } from '../processes/isolation.ts'
import type { ProcessDriver } from '../processes/process-driver.ts'
import { ContainerTools } from './container-tools.ts'
import type { ToolDriver } from './driver.ts'
import type { EgressAccess } from './egress.ts'
import type { FindPython } from './interpreters.ts'
import { ProcessTools } from './process-tools.ts'
import { Tools } from './tools.ts'

export interface OpenTools {
  catalog: Pick<Catalog, 'tools'>
  driver: ProcessDriver
  /** If this machine has an engine, tools run in containers. */
  containers: ContainerDriver | undefined
  /** The image of the catalog's tools, by digest. Without one, the machine's own programs are mounted. */
  image: string | undefined
  plainPython: () => Promise<string>
  pythonOf: (environment: string) => Promise<string>
  workDir: string
  pool: number
  outside: EgressAccess
  log: Logger
}

export interface ToolSetup {
  tools: Tools
  /** The tools' profile, if this node can confine them. */
  able: string[]
  isolation: Isolation | undefined
}

/** Opens this node's tools with the driver that can confine them here. */
export async function openTools(options: OpenTools): Promise<ToolSetup> {
  const { catalog, workDir, outside, pool, log } = options
  // Runs of an earlier process are over, so their files are no longer needed.
  await rm(workDir, { recursive: true, force: true })
  const driver = catalog.tools.length > 0 ? await findDriver(options) : undefined
  const tools = new Tools({ tools: catalog.tools, driver, workDir, outside, pool, log })
  if (!driver) return { tools, able: [], isolation: undefined }
  const isolation = driver.runsImages ? CONTAINER_ISOLATION : toolIsolation(await options.driver.groups())
  return { tools, able: [TOOL_PROFILE], isolation }
}

/** Returns the environments that tools need, in the form of the node's profiles. */
export const environmentsOf = (tools: Tools): { profile_id: string; python_env: string }[] =>
  [...tools.environments].map((python_env) => ({ profile_id: TOOL_PROFILE, python_env }))

async function findDriver(options: OpenTools): Promise<ToolDriver | undefined> {
  const { driver, containers, image, plainPython, pythonOf, log } = options
  const python: FindPython = (environment) => (environment === null ? plainPython() : pythonOf(environment))
  const lacks: string[] = []
  const candidates = [
    ...(containers ? [['containers', new ContainerTools({ containers, python, image })] as const] : []),
    ['processes', new ProcessTools({ driver, python })] as const,
  ]
  for (const [name, candidate] of candidates) {
    const lack = await candidate.lack().catch(String)
    if (lack === undefined) return candidate
    lacks.push(`as ${name}: ${lack}`)
  }
  emit(log, 'tool.unconfined', {}, { lack: lacks.join('; ') })
  return undefined
}
