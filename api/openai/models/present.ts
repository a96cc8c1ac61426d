import type { ChatModelRow } from '../../../db/repositories/chat-models.ts'
import type { ChatModel } from '../../../schemas/openai.ts'

/** Whose a foreign model is stays untold. */
export const presentChatModel = (row: ChatModelRow, accountId: string): ChatModel => ({
  id: row.id,
  object: 'model',
  created: Math.floor(row.created_at.getTime() / 1000),
  owned_by: row.account_id === accountId ? accountId : row.is_base_model ? 'hearth' : 'public',
  name: row.name,
  task_type: row.task_type,
})
