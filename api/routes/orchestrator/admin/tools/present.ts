import type { ToolRow } from '../../../../../db/tables/tools.ts'
import type { OfferedTool } from '../../../../../schemas/admin.ts'

export const presentTool = ({ slug, origin, endpoint_id, definition, updated_at }: ToolRow): OfferedTool => ({
  slug,
  origin,
  endpoint_id,
  image: definition.image ?? null,
  network: definition.network,
  updated_at: updated_at.toISOString(),
})
