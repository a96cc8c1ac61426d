import { graphlib, layout } from '@dagrejs/dagre'
import { useComputedColorScheme } from '@mantine/core'
import { Background, Controls, type Edge, type Node, Position, ReactFlow } from '@xyflow/react'
import '@xyflow/react/dist/style.css'
import { useMemo } from 'react'
import type { Lineage } from '../types.ts'

const WIDTH = 210
const HEIGHT = 58

/** What a model was made from, left to right; the same as a list for those who do not see the picture. */
export default function LineageGraph({ of }: { of: Lineage }) {
  const scheme = useComputedColorScheme('light')
  const { nodes, edges } = useMemo(() => placed(of), [of])
  return (
    <>
      <div className="graph">
        <ReactFlow
          nodes={nodes}
          edges={edges}
          colorMode={scheme}
          fitView
          fitViewOptions={{ maxZoom: 1 }}
          nodesDraggable={false}
          nodesConnectable={false}
          aria-label="Lineage"
        >
          <Background />
          <Controls showInteractive={false} />
        </ReactFlow>
      </div>
      <details>
        <summary>As a list</summary>
        <ul>
          {of.edges.map(({ from, to, relation }) => (
            <li key={`${from} ${to} ${relation}`}>
              {labelOf(of, from)} → {labelOf(of, to)} ({relation.replaceAll('_', ' ')})
            </li>
          ))}
        </ul>
      </details>
    </>
  )
}

const labelOf = ({ nodes }: Lineage, id: string): string => nodes.find((node) => node.id === id)?.label ?? id

function placed(lineage: Lineage): { nodes: Node[]; edges: Edge[] } {
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
      style: { width: WIDTH, fontSize: 12, overflowWrap: 'anywhere' },
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
