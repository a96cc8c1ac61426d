import { consumeEdge } from './consume-edge.ts'
import { negotiateEdge } from './negotiate-edge.ts'

export const cohortEdges = [negotiateEdge, consumeEdge]
