import type { Lineage } from '../../schemas/model.ts'

/** Draws the lineage of a model as a tree, each item with its origins below it. */
export function formatLineage({ nodes, edges }: Lineage): string {
  const made = nodes.filter(({ id }) => !edges.some(({ from }) => from === id))
  return made.flatMap(({ id }) => tree(id, '', new Set())).join('\n')

  function tree(id: string, indent: string, above: ReadonlySet<string>): string[] {
    const node = nodes.find((one) => one.id === id)
    const line = node ? `${node.type} ${node.label}` : id
    const below = above.has(id) ? [] : edges.filter(({ to }) => to === id)
    return [
      line,
      ...below.flatMap(({ from, relation }, i) => {
        const isLast = i === below.length - 1
        const [first = '', ...rest] = tree(from, indent, new Set([...above, id]))
        const inner = rest.map((text) => `${isLast ? '   ' : '|  '}${text}`)
        return [`${isLast ? '`' : '|'}- ${relation.replaceAll('_', ' ')}: ${first}`, ...inner]
      }),
    ]
  }
}
