import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { toolKey } from '../../../../domain/tools/catalog.ts'
import { Environments } from '../../../../node-runtime/environments/environments.ts'
import { findPython } from '../../../../node-runtime/environments/python-env.ts'
import { ContainerDriver } from '../../../../node-runtime/processes/container-driver.ts'
import { ProcessDriver } from '../../../../node-runtime/processes/process-driver.ts'
import { ContainerTools } from '../../../../node-runtime/tools/container-tools.ts'
import type { ToolDriver } from '../../../../node-runtime/tools/driver.ts'
import type { EgressAccess } from '../../../../node-runtime/tools/egress.ts'
import { ProcessTools } from '../../../../node-runtime/tools/process-tools.ts'
import type { InstalledTool } from '../../../../node-runtime/tools/stage.ts'
import { Tools } from '../../../../node-runtime/tools/tools.ts'
import { loadCatalog } from '../../../../platform/catalog.ts'
import { readConfig } from '../../../../platform/config.ts'
import { EgressPolicy } from '../../../../platform/egress/policy.ts'
import { PublicConnections } from '../../../../platform/egress/public-connections.ts'
import { createLogger } from '../../../../platform/log.ts'
import type { CatalogTool } from '../../../../schemas/catalog-tool.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import { requireInstalled, skipBecause } from '../../skip.ts'
import { type Engine, requireEngine } from './container-engine.ts'

/** The tools of a node, without the node. */
export interface ToolBench extends AsyncDisposable {
  readonly tools: Tools
  readonly folder: string
  run(slug: string, input: object, signal?: AbortSignal, turn?: string): Promise<Record<string, unknown>>
  python(code: string, timeout_s?: number): Promise<{ stdout: string; stderr: string; exit_code: number }>
  /** Returns the processes, containers and files that runs left behind. */
  leftovers(): Promise<string[]>
}

interface ToolBenchOptions {
  more?: InstalledTool[]
  outside?: EgressAccess
  /** Runs tools in containers instead of processes. */
  inContainers?: boolean
  pool?: number
  /** The interpreter of tools without an environment. */
  interpreter?: string
  /** If false, only the node's watchdog limits processes, even if the kernel could. */
  withGroups?: boolean
}

const NOWHERE: EgressAccess = {
  connections: new PublicConnections(new EgressPolicy({ allow: [], block: [] })),
  storage: () => [],
}

/** For `before`: skips the suite if this machine can't confine tools this way. */
export async function requireToolBench(
  context: Mocha.Context,
  options: ToolBenchOptions = {},
): Promise<ToolBench> {
  const { more = [], outside = NOWHERE, inContainers = false, pool = 0, withGroups = true } = options
  context.timeout(60_000)
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(temporaryFolder()).path
  const stateDir = join(folder, 'node')
  const log = createLogger('test', process.env.HEARTH_LOG_LEVEL ?? 'silent')
  const plain = options.interpreter
    ? Promise.resolve(options.interpreter)
    : findPython({ cacheDir: join(folder, 'cache'), log: () => {} })
  const environments = new Environments({ profiles: [], cacheDir: readConfig().HEARTH_CACHE_DIR, log })
  const python = (environment: string | null) =>
    environment === null ? plain : environments.python(environment)
  const driver = new ProcessDriver({
    stateDir,
    python: () => plain,
    ...(!withGroups && { groups: () => Promise.resolve(undefined) }),
  })
  let engine: Engine | undefined
  let toolDriver: ToolDriver = new ProcessTools({ driver, python })
  if (inContainers) {
    engine = stack.use(await requireEngine(context, { withImage: false }))
    const containers = await ContainerDriver.connect({ socketPath: engine.socketPath, stateDir })
    assert.ok(containers)
    toolDriver = new ContainerTools({ containers, python, image: undefined })
  }
  const lack = await toolDriver.lack()
  if (lack !== undefined) skipBecause(context, `this machine cannot confine tools: ${lack}`)
  const workDir = join(folder, 'work')
  const tools = stack.use(
    new Tools({ tools: [...loadCatalog().tools, ...more], driver: toolDriver, workDir, outside, pool, log }),
  )
  const opened = stack.move()
  const run: ToolBench['run'] = async (slug, input, signal = new AbortController().signal, turn) => {
    const result = await tools.run(toolKey(slug), Buffer.from(JSON.stringify(input)), signal, turn)
    return JSON.parse(result.toString()) as Record<string, unknown>
  }
  const containersLeft = async () => {
    const all = (await engine?.docker.listContainers({ all: true })) ?? []
    return all.flatMap(({ Names }) => Names).filter((name) => name.includes('-tool-'))
  }
  return {
    tools,
    folder,
    run,
    python: async (code, timeout_s = 20) =>
      (await run('run_python', { code, timeout_s })) as Awaited<ReturnType<ToolBench['python']>>,
    leftovers: async () => [
      ...(await containersLeft()),
      ...driver.running.map(({ name }) => name),
      ...['node/pids', 'node/own', 'work'].flatMap((name) => {
        const path = join(folder, name)
        return existsSync(path) ? readdirSync(path) : []
      }),
    ],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Returns a test tool: a shell script without input. */
export const scriptTool = (
  slug: string,
  script: string,
  change: Partial<CatalogTool> = {},
): InstalledTool => ({
  program: undefined,
  tool: {
    slug,
    display_name: slug,
    description: 'For tests.',
    tags: ['test'],
    input_schema: { type: 'object' },
    output_schema: { type: 'object' },
    examples: [{ name: 'only', description: '', input: {}, output: {} }],
    command: ['/bin/sh', '-c', script],
    output: 'streams',
    network: 'none',
    limits: { time_s: 10, memory_mb: 128, cpus: 1, processes: 32, temporary_mb: 8, output_kb: 16 },
    ...change,
  },
})

/** For `before`: returns the interpreter with the tools' libraries; skips the suite if it can't be installed. */
export async function requireToolPython(context: Mocha.Context): Promise<string> {
  const log = createLogger('test', 'silent')
  const environments = new Environments({ profiles: [], cacheDir: readConfig().HEARTH_CACHE_DIR, log })
  const install = () => environments.python('tools')
  await requireInstalled(context, process.env['HEARTH_TEST_TOOLS_MISSING'], install)
  return install()
}
