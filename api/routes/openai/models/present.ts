import type { ChatModelRow } from '../../../../db/repositories/endpoints/chat-models.ts'
import type { ChatModel } from '../../../../schemas/openai.ts'
import { hubOriginOf } from '../../builder/endpoints/present.ts'

/** Only who imported a foreign model is said: what others trained stays without a name. */
export const presentChatModel = (row: ChatModelRow, accountId: string): ChatModel => ({
  id: row.id,
  object: 'model',
  created: Math.floor(row.created_at.getTime() / 1000),
  owned_by: ownerOf(row, accountId),
  name: row.name,
  task_type: row.task_type,
  ...(row.hub_revision !== null && hubOriginOf(row)),
})

function ownerOf({ account_id, is_base_model, source }: ChatModelRow, accountId: string): string {
  // Base models are what accounts imported from the hub; the rest of the catalog is what the operator brought.
  if (account_id === accountId || is_base_model) return account_id
  return source === 'catalog' ? 'hearth' : 'public'
}
