import type { AnyRoute } from './route.ts'

/** Routes under one prefix that share an error format. */
export interface Family {
  name: 'builder' | 'openai' | 'orchestrator' | 'root'
  prefix: '' | `/${string}`
  errors: 'builder' | 'openai'
  routes: readonly AnyRoute[]
}
