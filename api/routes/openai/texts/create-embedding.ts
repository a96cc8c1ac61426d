import { CreateEmbedding, EmbeddingList } from '../../../../schemas/openai-texts.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { answerTexts, type TextsRoute } from './answer-texts.ts'

const SERVED: TextsRoute = {
  path: '/v1/embeddings',
  serves: (taskType) => taskType === 'embeddings',
  words: 'for embeddings',
}

export const createEmbedding = route({
  operationId: 'createEmbedding',
  summary: 'Turn texts into vectors',
  method: 'POST',
  path: '/embeddings',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateEmbedding,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: EmbeddingList },
  errors: ['not_found', 'forbidden', 'conflict', 'model_cold', 'no_capacity', 'unavailable'],

  handler: (request, services) => answerTexts(services, request, SERVED),
})
