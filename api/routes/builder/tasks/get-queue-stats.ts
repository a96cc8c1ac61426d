import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import * as taskStatsRepository from '../../../../db/repositories/tasks/stats.ts'
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
      taskStatsRepository.countOpenTasks(db, caller.accountId),
      nodeLoadRepository.countWorkers(db, caller.accountId),
      taskStatsRepository.readUsage(db, caller.accountId),
    ])
    return { queue_size, workers, metrics }
  },
})
