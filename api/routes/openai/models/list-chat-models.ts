import * as chatModelRepository from '../../../../db/repositories/endpoints/chat-models.ts'
import { ChatModelList } from '../../../../schemas/openai.ts'
import { route } from '../../../http/route.ts'
import { presentChatModel } from './present.ts'

export const listChatModels = route({
  operationId: 'listChatModels',
  summary: 'List the models to chat with: your own and the approved public ones',
  method: 'GET',
  path: '/models',
  auth: 'api-key',
  success: { status: 200, schema: ChatModelList },

  async handler({ caller: { accountId } }, { db }) {
    const rows = await chatModelRepository.listChatModels(db, accountId)
    return { object: 'list', data: rows.map((row) => presentChatModel(row, accountId)) }
  },
})
