import type { Family } from '../../http/family.ts'
import { audio } from './audio/index.ts'
import { chatCompletions } from './chat-completions/index.ts'
import { createCompletion } from './completions/create-completion.ts'
import { images } from './images/index.ts'
import { models } from './models/index.ts'
import { createResponse } from './responses/create-response.ts'
import { createCohereRerank } from './texts/create-rerank.ts'
import { texts } from './texts/index.ts'

/** The OpenAI-compatible surface. A resource folder exports an array of routes; add it here. */
export const openai: Family = {
  name: 'openai',
  prefix: '/v1',
  errors: 'openai',
  routes: [...chatCompletions, createCompletion, createResponse, ...texts, ...audio, ...images, ...models],
}

/** The one route of Cohere's second version; its clients append the path to the service's base address. */
export const cohere: Family = {
  name: 'openai',
  prefix: '/v2',
  errors: 'openai',
  routes: [createCohereRerank],
}
