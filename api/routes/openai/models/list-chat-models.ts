import * as chatModelRepository from '../../../../db/repositories/endpoints/chat-models.ts'
import { CHAT_TASK_TYPES } from '../../../../domain/chat/chat.ts'
import { mayCallModel } from '../../../../domain/key-limits.ts'
import { ChatModelList, ChatModelsQuery } from '../../../../schemas/openai/openai.ts'
import { route } from '../../../http/route.ts'
import { presentChatModel } from './present.ts'

export const listChatModels = route({
  operationId: 'listChatModels',
  summary: 'List chat models, or models of another task type: your own and approved public ones',
  method: 'GET',
  path: '/models',
  auth: 'api-key',
  query: ChatModelsQuery,
  success: { status: 200, schema: ChatModelList },
  isLong: true,

  async handler({ caller: { accountId, limits }, query: { task_type } }, { db, links }) {
    const taskTypes = task_type === undefined ? CHAT_TASK_TYPES : [task_type]
    const offered = await chatModelRepository.listModels(db, accountId, taskTypes)
    const rows = offered.filter((endpoint) => mayCallModel(limits, endpoint))
    return { object: 'list', data: rows.map((row) => presentChatModel(row, accountId, links.placement)) }
  },
})
