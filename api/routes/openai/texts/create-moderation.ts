import { CreateModeration, Moderation } from '../../../../schemas/openai-texts.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { answerTexts, type TextsRoute } from './answer-texts.ts'

const SERVED: TextsRoute = {
  path: '/v1/moderations',
  serves: (taskType) => taskType === 'moderation',
  words: 'for moderation',
}

export const createModeration = route({
  operationId: 'createModeration',
  summary: 'Tell which categories of harm texts fall into',
  method: 'POST',
  path: '/moderations',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateModeration,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: Moderation },
  errors: ['not_found', 'forbidden', 'conflict', 'model_cold', 'no_capacity', 'unavailable'],

  handler: (request, services) => answerTexts(services, request, SERVED),
})
