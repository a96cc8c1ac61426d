import type { Family } from '../../http/family.ts'
import { OFFER, type Offer } from '../../mcp/offer.ts'
import { getProtectedResource } from './get-protected-resource.ts'
import { serveMcp } from './serve-mcp.ts'

/** The Model Context Protocol, with what it offers. */
export const mcpFamily = (offer: Offer = OFFER): Family => ({
  name: 'mcp',
  prefix: '',
  errors: 'mcp',
  routes: [serveMcp(offer), getProtectedResource],
})
