import { graphlib, layout } from '@dagrejs/dagre'
import { useComputedColorScheme } from '@mantine/core'
import { Background, Controls, type Edge, type Node, Position, ReactFlow } from '@xyflow/react'
import '@xyflow/react/dist/style.css'
import { useMemo, useState } from 'react'
import type { Lineage, ModelUsage } from '../types.ts'
import { type Graph, versionOf, withEndpoints } from './graph.ts'
import { LineageStep } from './lineage-step.tsx'

const WIDTH = 210
const HEIGHT = 58

interface LineageGraphProps {
  of: Lineage
  /** The endpoints of the versions, once they are known. */
  endpoints: ModelUsage['endpoints'] | undefined
}

/**
 * Draws the sources and the endpoints of a model, left to right. A click, or a button below it, selects the next item.
 */
export default function LineageGraph({ of: lineage, endpoints }: LineageGraphProps) {
  const of = useMemo(() => withEndpoints(lineage, endpoints), [lineage, endpoints])
  const scheme = useComputedColorScheme('light')
  const [chosen, choose] = useState(versionOf(of))
  const { nodes, edges } = useMemo(() => placed(of), [of])
  return (
    <>
      <div className="graph">
        <ReactFlow
          nodes={nodes.map((node) => ({ ...node, selected: node.id === chosen }))}
          edges={edges}
          colorMode={scheme}
          fitView
          fitViewOptions={{ maxZoom: 1 }}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          onNodeClick={(_event, { id }) => choose(id)}
          aria-label="Lineage"
        >
          <Background />
          <Controls showInteractive={false} />
        </ReactFlow>
      </div>
      {chosen !== undefined && <LineageStep of={of} at={chosen} onGo={choose} />}
    </>
  )
}

function placed(lineage: Graph): { nodes: Node[]; edges: Edge[] } {
  const graph = new graphlib.Graph()
    .setGraph({ rankdir: 'LR', ranksep: 90, nodesep: 24 })
    .setDefaultEdgeLabel(() => ({}))
  for (const { id } of lineage.nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT })
  for (const { from, to } of lineage.edges) graph.setEdge(from, to)
  layout(graph)
  const nodes = lineage.nodes.map(({ id, type, label }): Node => {
    const { x, y } = graph.node(id) as { x: number; y: number }
    return {
      id,
      position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 },
      data: { label: `${type.replaceAll('_', ' ')}: ${label}` },
      sourcePosition: Position.Right,
      targetPosition: Position.Left,
      style: { width: WIDTH, fontSize: 12, overflowWrap: 'anywhere', cursor: 'pointer' },
    }
  })
  const edges = lineage.edges.map(({ from, to, relation }): Edge => ({
    id: `${from} ${to} ${relation}`,
    source: from,
    target: to,
    label: relation.replaceAll('_', ' '),
  }))
  return { nodes, edges }
}
