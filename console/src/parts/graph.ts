import type { Lineage, ModelUsage } from '../types.ts'

/** A lineage with the endpoints that its versions are used for. */
export interface Graph {
  nodes: readonly { id: string; type: string; label: string; details: Record<string, unknown> }[]
  edges: readonly { from: string; to: string; relation: string }[]
}

const SERVED = 'served_as'

/** Adds the endpoints of a model to the lineage of its versions. */
export function withEndpoints({ nodes, edges }: Lineage, endpoints: ModelUsage['endpoints'] = []): Graph {
  const versions = new Map(nodes.map(({ id, details }) => [details['version_id'], id]))
  const served = endpoints.flatMap(({ endpoint_id, name, status, version_id }) => {
    const from = versions.get(version_id)
    const node = {
      id: `endpoint:${endpoint_id}`,
      type: 'endpoint',
      label: name,
      details: { endpoint_id, status },
    }
    return from === undefined ? [] : [{ node, edge: { from, to: node.id, relation: SERVED } }]
  })
  return {
    nodes: [...nodes, ...served.map(({ node }) => node)],
    edges: [...edges, ...served.map(({ edge }) => edge)],
  }
}

/** Returns the version that the rest of the graph leads to. */
export const versionOf = ({ nodes, edges }: Graph): string | undefined => {
  const made = edges.filter(({ relation }) => relation !== SERVED)
  return nodes.find(({ id, type }) => type !== 'endpoint' && !made.some(({ from }) => from === id))?.id
}
