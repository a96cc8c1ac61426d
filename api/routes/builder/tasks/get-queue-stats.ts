import { countWorkers } from '../../../../db/repositories/nodes/loads.ts'
import { countOpenTasks, readUsage } from '../../../../db/repositories/tasks/stats.ts'
import { QueueStats } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'

export const getQueueStats = route({
  operationId: 'getQueueStats',
  summary: 'Count the tasks of the account and the workers of the platform',
  method: 'GET',
  path: '/queue/stats',
  auth: 'api-key',
  success: { status: 200, schema: QueueStats },

  async handler({ caller }, { db }) {
    const [queue_size, workers, metrics] = await Promise.all([
      countOpenTasks(db, caller.accountId),
      countWorkers(db, caller.accountId),
      readUsage(db, caller.accountId),
    ])
    return { queue_size, workers, metrics }
  },
})
