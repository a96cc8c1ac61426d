import type { Family } from '../../http/family.ts'
import { chatCompletions } from './chat-completions/index.ts'
import { models } from './models/index.ts'

/** The OpenAI-compatible surface. A resource folder exports an array of routes; add it here. */
export const openai: Family = {
  name: 'openai',
  prefix: '/v1',
  errors: 'openai',
  routes: [...chatCompletions, ...models],
}
