import { CreateEmbedding, EmbeddingList } from '../../../../schemas/openai/texts.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { answerTexts, type TextsRoute } from './answer-texts.ts'

const SERVED: TextsRoute = {
  path: '/v1/embeddings',
  serves: (taskType) => taskType === 'embeddings',
  words: 'for embeddings',
}

export const createEmbedding = route({
  operationId: 'createEmbedding',
  summary: 'Create embeddings of texts',
  method: 'POST',
  path: '/embeddings',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateEmbedding,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: EmbeddingList },
  errors: CALL_ERRORS,

  handler: (request, services) => answerTexts(services, request, SERVED),
})
