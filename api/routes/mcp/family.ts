import type { Family } from '../../http/family.ts'
import { OFFER, type Offer } from '../../mcp/offer.ts'
import { getProtectedResource } from './get-protected-resource.ts'
import { serveMcp } from './serve-mcp.ts'

/** The routes of the Model Context Protocol, with the tools, resources and prompts to offer. */
export const mcpFamily = (offer: Offer = OFFER): Family => ({
  name: 'mcp',
  prefix: '',
  errors: 'mcp',
  routes: [serveMcp(offer), getProtectedResource],
})
