import { getChatModel } from './get-chat-model.ts'
import { listChatModels } from './list-chat-models.ts'

export const models = [listChatModels, getChatModel]
