import { CreateImage, ImageList } from '../../../../schemas/openai/images.ts'
import { route } from '../../../http/route.ts'
import { answerCall } from '../calls/answer-call.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { readImages } from './read-images.ts'

export const createImage = route({
  operationId: 'createImage',
  summary: 'Generate images from a prompt',
  method: 'POST',
  path: '/images/generations',
  auth: 'api-key',
  admitsWork: true,
  body: CreateImage,
  success: { status: 200, schema: ImageList },
  errors: CALL_ERRORS,

  handler: ({ caller, body, rawBody, disconnect }, services) =>
    answerCall(
      services,
      { caller, disconnect, model: body.model, body: rawBody },
      {
        path: '/v1/images/generations',
        serves: (taskType) => taskType === 'text-to-image',
        words: 'for generating images',
        read: (answer, call) => readImages(services, call, answer, body.response_format),
      },
    ),
})
