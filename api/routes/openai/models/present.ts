import type { ChatModelRow } from '../../../../db/repositories/endpoints/chat-models.ts'
import type { PlacementIndex } from '../../../../domain/placement/placement.ts'
import type { ChatModel } from '../../../../schemas/openai/openai.ts'
import { hubOriginOf } from '../../builder/endpoints/present.ts'

/**
 * Presents a model. Names the account that imported a base model, but not the owner of another account's trained model.
 */
export const presentChatModel = (
  row: ChatModelRow,
  accountId: string,
  placement: Pick<PlacementIndex, 'loadedOn'>,
): ChatModel => ({
  id: row.id,
  object: 'model',
  created: Math.floor(row.created_at.getTime() / 1000),
  owned_by: ownerOf(row, accountId),
  name: row.name,
  task_type: row.task_type,
  ...contextOf(placement, row.model_key, accountId),
  ...(row.parent !== null && { parent: row.parent }),
  ...(row.hub_revision !== null && hubOriginOf(row)),
})

/** Returns the context that every node with the model loaded for this account offers. */
function contextOf(
  placement: Pick<PlacementIndex, 'loadedOn'>,
  modelKey: string,
  accountId: string,
): Pick<ChatModel, 'max_model_len'> {
  const lengths = placement
    .loadedOn(modelKey, accountId)
    .flatMap(({ models }) => models.get(modelKey)?.max_model_len ?? [])
  return lengths.length > 0 ? { max_model_len: Math.min(...lengths) } : {}
}

function ownerOf({ account_id, is_base_model, source }: ChatModelRow, accountId: string): string {
  // Base models are imported by accounts; all other catalog models come from the operator.
  if (account_id === accountId || is_base_model) return account_id
  return source === 'catalog' ? 'hearth' : 'public'
}
