import * as memoryHistoryRepository from '../../../../db/repositories/nodes/memory-history.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { MEMORY_WINDOWS } from '../../../../domain/placement/memory-windows.ts'
import { NodeMemory, NodeMemoryQuery } from '../../../../schemas/nodes/node-memory.ts'
import { route } from '../../../http/route.ts'
import { nodeNotFound, params } from './move.ts'

export const getNodeMemory = route({
  operationId: 'getNodeMemory',
  summary: 'Get the measured memory of a node and of its model servers and runs over time',
  method: 'GET',
  path: '/admin/nodes/{node_id}/memory',
  auth: 'operations-key',
  params,
  query: NodeMemoryQuery,
  success: { status: 200, schema: NodeMemory },
  errors: ['not_found'],

  async handler({ params: { node_id }, query: { window = 'hour' } }, { db, now }) {
    const [names, series] = await Promise.all([
      nodeRepository.nodeNames(db, [node_id]),
      memoryHistoryRepository.readMemorySeries(db, node_id, { window, now: now() }),
    ])
    if (names.size === 0) throw nodeNotFound()
    const processes = series.filter(({ kind }) => kind !== 'node')
    return {
      node_id,
      window,
      step_s: MEMORY_WINDOWS[window].bucketS,
      node: series.find(({ kind }) => kind === 'node')?.points ?? [],
      processes: processes.map(({ kind, key, name, points }) => ({
        ...(kind === 'server' ? { model_key: key } : { run_id: key }),
        name,
        points,
      })),
      left_out: (series[0]?.processes ?? 0) - processes.length,
    }
  },
})
