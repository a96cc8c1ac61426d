import { consumeEdge } from './consume-edge.ts'
import { negotiateEdge } from './negotiate-edge.ts'
import { rendezvousEdge } from './rendezvous-edge.ts'
import { runEdgeSession, transferEdge } from './transfer-edge.ts'

export const cohortEdges = [negotiateEdge, rendezvousEdge, transferEdge, runEdgeSession, consumeEdge]
