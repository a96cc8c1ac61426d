import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { createLogger } from '../../platform/log.ts'
import { temporalLogger } from '../../workers/temporal-logger.ts'
import { BARE_NODE_QUEUE, BARE_QUEUE, place, work } from './activities.ts'

// One of two processes, like the platform's control worker and node. Arguments: `control` or `node`, and the server's
// address.

const [role, address = ''] = process.argv.slice(2)
Runtime.install({ logger: temporalLogger(createLogger('bare', 'silent')), shutdownSignals: ['SIGTERM'] })
const connection = await NativeConnection.connect({ address })
const worker =
  role === 'control'
    ? await Worker.create({
        connection,
        taskQueue: BARE_QUEUE,
        workflowBundle: await bundleWorkflowCode({
          workflowsPath: fileURLToPath(new URL('workflow.ts', import.meta.url)),
          logger: temporalLogger(createLogger('bare', 'silent')),
        }),
        activities: { place },
      })
    : await Worker.create({ connection, taskQueue: BARE_NODE_QUEUE, activities: { work } })
await worker.run()
await connection.close()
