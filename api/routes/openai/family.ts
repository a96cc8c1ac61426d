import type { Family } from '../../http/family.ts'
import { createSpeech } from './audio/create-speech.ts'
import { createTranscription, createTranslation } from './audio/create-transcription.ts'
import { createChatCompletion } from './chat-completions/create-chat-completion.ts'
import { createCompletion } from './completions/create-completion.ts'
import { createImageEdit, createImageVariation } from './images/change-image.ts'
import { createImage } from './images/create-image.ts'
import { getChatModel } from './models/get-chat-model.ts'
import { listChatModels } from './models/list-chat-models.ts'
import { createResponse } from './responses/create-response.ts'
import { createEmbedding } from './texts/create-embedding.ts'
import { createModeration } from './texts/create-moderation.ts'
import { createCohereRerank, createRerank } from './texts/create-rerank.ts'

/** The OpenAI-compatible surface. Add a new route to this list. */
export const openai: Family = {
  name: 'openai',
  prefix: '/v1',
  errors: 'openai',
  routes: [
    createChatCompletion,
    createCompletion,
    createResponse,
    createEmbedding,
    createModeration,
    createRerank,
    createSpeech,
    createTranscription,
    createTranslation,
    createImage,
    createImageEdit,
    createImageVariation,
    listChatModels,
    getChatModel,
  ],
}

/** The one route of Cohere's v2 API that we serve; its clients append the path to the service's base URL. */
export const cohere: Family = {
  name: 'openai',
  prefix: '/v2',
  errors: 'openai',
  routes: [createCohereRerank],
}
