import type { AnyRoute } from './route.ts'

/** Routes under one prefix that speak of errors in one way. */
export interface Family {
  name: 'builder' | 'openai' | 'orchestrator' | 'root'
  prefix: '' | `/${string}`
  errors: 'builder' | 'openai'
  routes: readonly AnyRoute[]
}
