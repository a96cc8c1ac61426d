import Type, { type Static } from 'typebox'
import { CatalogTool } from '../catalog-tool.ts'

/** Operators' tools, as nodes read them. */
export const NodeTools = Type.Object({ tools: Type.Array(CatalogTool) })
export type NodeTools = Static<typeof NodeTools>
