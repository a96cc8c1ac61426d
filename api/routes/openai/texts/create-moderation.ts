import { CreateModeration, Moderation } from '../../../../schemas/openai/texts.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { answerTexts, type TextsRoute } from './answer-texts.ts'

const SERVED: TextsRoute = {
  path: '/v1/moderations',
  serves: (taskType) => taskType === 'moderation',
  words: 'for moderation',
}

export const createModeration = route({
  operationId: 'createModeration',
  summary: 'Classify text into categories of harm',
  method: 'POST',
  path: '/moderations',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateModeration,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: Moderation },
  errors: CALL_ERRORS,

  handler: (request, services) => answerTexts(services, request, SERVED),
})
