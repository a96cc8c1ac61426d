import type { AnyRoute } from './route.ts'

/** Routes under one prefix that share an error format. */
export interface Family {
  name: 'builder' | 'openai' | 'orchestrator' | 'mcp' | 'root'
  prefix: '' | `/${string}`
  errors: 'builder' | 'openai' | 'mcp'
  routes: readonly AnyRoute[]
}
