import { RecentLogs } from '../node-runtime/control/recent-logs.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { readConfig } from '../platform/config.ts'
import { createLogger } from '../platform/log.ts'
import { closeNode, openNode } from '../workers/node/parts.ts'

// Runs the node for `bench/gateway.ts` in a separate process: `node gateway-node.ts <catalog> <model key>`. It loads
// one model.

const [, , catalogDir = '', modelKey = ''] = process.argv
const parts = await openNode(readConfig(), createLogger('node', 'warn'), {
  catalog: loadCatalog(catalogDir),
  lines: new RecentLogs(),
  isDraining: () => false,
  gateFault: () => undefined,
  onDraining: () => {},
  onSharing: () => {},
  onNoLink: () => {},
})
await parts.models.load(modelKey)
process.once('SIGTERM', () => void closeNode(parts).then(() => process.exit()))
