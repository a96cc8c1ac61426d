import Type from 'typebox'
import * as chatModelRepository from '../../../../db/repositories/endpoints/chat-models.ts'
import { mayCallModel } from '../../../../domain/key-limits.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import { ChatModel } from '../../../../schemas/openai/openai.ts'
import { route } from '../../../http/route.ts'
import { noModel } from '../calls/model-endpoint.ts'
import { presentChatModel } from './present.ts'

export const getChatModel = route({
  operationId: 'getChatModel',
  summary: 'Get a chat model by its id or name',
  method: 'GET',
  path: '/models/{model}',
  auth: 'api-key',
  params: Type.Object({ model: Type.String({ minLength: 1, maxLength: 200 }) }),
  success: { status: 200, schema: ChatModel },

  async handler({ caller: { accountId, limits }, params: { model } }, { db, links }) {
    const by = isUuid(model) ? { id: model.toLowerCase() } : { name: model.toLowerCase() }
    const row = await chatModelRepository.findChatModel(db, accountId, by)
    if (!row || !mayCallModel(limits, row)) throw noModel(model)
    return presentChatModel(row, accountId, links.placement)
  },
})
