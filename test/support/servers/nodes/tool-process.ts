import { join } from 'node:path'
import { toolKey } from '../../../../domain/tools/catalog.ts'
import { findPython } from '../../../../node-runtime/environments/python-env.ts'
import { ContainerDriver } from '../../../../node-runtime/processes/container-driver.ts'
import { ProcessDriver } from '../../../../node-runtime/processes/process-driver.ts'
import { openTools } from '../../../../node-runtime/tools/open-tools.ts'
import { loadCatalog } from '../../../../platform/catalog.ts'
import { EgressPolicy } from '../../../../platform/egress/policy.ts'
import { PublicConnections } from '../../../../platform/egress/public-connections.ts'
import { createLogger } from '../../../../platform/log.ts'

// Runs Python code as a tool in a folder until the process is killed: `tool-process.ts FOLDER CODE [ENGINE_SOCKET]`.
const [folder = '', code = '', socketPath] = process.argv.slice(2)
const python = findPython({ cacheDir: join(folder, 'cache'), log: () => {} })
const stateDir = join(folder, 'node')
const { tools } = await openTools({
  catalog: loadCatalog(),
  driver: new ProcessDriver({ stateDir, python: () => python }),
  containers: socketPath === undefined ? undefined : await ContainerDriver.connect({ socketPath, stateDir }),
  image: undefined,
  plainPython: () => python,
  pythonOf: () => python,
  workDir: join(folder, 'work'),
  outside: {
    connections: new PublicConnections(new EgressPolicy({ allow: [], block: [] })),
    storage: () => [],
  },
  pool: 0,
  log: createLogger('test', 'silent'),
})
const input = Buffer.from(JSON.stringify({ code, timeout_s: 300 }))
await tools.run(toolKey('run_python'), input, new AbortController().signal)
