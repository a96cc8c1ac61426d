import { join } from 'node:path'
import { Client, Connection, isGrpcServiceError } from '@temporalio/client'
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { readReady } from '../cli/platform.ts'
import { readConfig } from '../platform/config.ts'
import { workflowBundle } from '../workers/bundle.ts'

const USAGE = `usage: npm run replay -- WORKFLOW_ID

Replays a workflow's history against the workflow code in this checkout, and fails if that code would behave differently.
The history comes from the Temporal server of the platform that \`npm start\` runs (HEARTH_DATA_DIR, default .hearth).
To step through the workflow, attach a debugger: npx node --inspect-brk scripts/replay.ts WORKFLOW_ID`

async function main(): Promise<number> {
  const [workflowId] = process.argv.slice(2)
  if (!workflowId || workflowId.startsWith('-')) {
    console.error(USAGE)
    return 2
  }
  const config = readConfig()
  const ready = readReady(join(config.HEARTH_DATA_DIR, 'ready.json'))
  if (!ready) {
    console.error(
      `No platform is running in ${config.HEARTH_DATA_DIR}: start one with npm start, or set HEARTH_DATA_DIR.`,
    )
    return 1
  }
  const connection = await Connection.connect({ address: ready.temporal_address })
  try {
    const history = await new Client({ connection }).workflow.getHandle(workflowId).fetchHistory()
    Runtime.install({ logger: new DefaultLogger('WARN') })
    const bundle = await workflowBundle(config.HEARTH_CACHE_DIR)
    await Worker.runReplayHistory({ workflowBundle: bundle }, history, workflowId)
    console.log(`Replayed ${history.events?.length} events of ${workflowId}.`)
    return 0
  } catch (err) {
    console.error(isGrpcServiceError(err) ? `Temporal: ${err.details}` : err)
    return 1
  } finally {
    await connection.close()
  }
}

process.exitCode = await main()
