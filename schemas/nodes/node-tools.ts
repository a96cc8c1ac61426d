import Type, { type Static } from 'typebox'
import { CatalogTool } from '../catalog-tool.ts'

/** The operators' tools, in the form that nodes read. */
export const NodeTools = Type.Object({ tools: Type.Array(CatalogTool) })
export type NodeTools = Static<typeof NodeTools>
