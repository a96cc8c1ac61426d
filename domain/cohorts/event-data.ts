/** Event data is limited to 2 KB, and a list may use most of it. */
const MAX_LIST_BYTES = 1_500

/** Returns as many list items as fit in an event's data, and the number left out. */
export function listed<T>(items: readonly T[]): { shown: T[]; more?: number } {
  const shown: T[] = []
  let bytes = 0
  for (const item of items) {
    bytes += new TextEncoder().encode(JSON.stringify(item)).length + 1
    if (bytes > MAX_LIST_BYTES) return { shown, more: items.length - shown.length }
    shown.push(item)
  }
  return { shown }
}

interface StageNode {
  node_id: string | null
  node_name: string | null
}

/** A stage that runs on a different node than planned. Only nodes that its account may see are named. */
export interface MovedStage {
  stage_id: string
  from: string | null
  to: string | null
  from_name: string | null
  to_name: string | null
}

export const movedStage = (stage_id: string, from: StageNode, to: StageNode): MovedStage => ({
  stage_id,
  from: from.node_id,
  to: to.node_id,
  from_name: from.node_name,
  to_name: to.node_name,
})
