import {
  CreateImageEdit,
  CreateImageVariation,
  ImageEditFields,
  ImageList,
  ImageVariationFields,
} from '../../../../schemas/openai/images.ts'
import { jsonWithFile, readBufferedFile } from '../../../http/bodies/buffered-file.ts'
import { route } from '../../../http/route.ts'
import { answerCall } from '../calls/answer-call.ts'
import { CALL_ERRORS, FILE_LIMIT } from '../calls/model-call.ts'
import { readImages } from './read-images.ts'

interface Change {
  operationId: string
  path: `/images/${string}`
  summary: string
  form: typeof CreateImageEdit | typeof CreateImageVariation
  fields: typeof ImageEditFields | typeof ImageVariationFields
}

/** Both routes accept a form with an image; an edit also has a prompt. */
const changeRoute = ({ operationId, path, summary, form, fields: schema }: Change) =>
  route({
    operationId,
    summary,
    method: 'POST',
    path,
    auth: 'api-key',
    admitsWork: true,
    stream: { contentTypes: ['multipart/form-data'], schema: form, file: FILE_LIMIT },
    success: { status: 200, schema: ImageList },
    errors: CALL_ERRORS,

    async handler(request, services) {
      const { caller, disconnect } = request
      const { fields, file } = await readBufferedFile(request, {
        file: 'image',
        limit: FILE_LIMIT,
        fields: schema,
      })
      return answerCall(
        services,
        { caller, disconnect, model: fields.model, body: jsonWithFile(fields, 'image', file) },
        {
          path: `/v1${path}`,
          serves: (taskType) => taskType === 'image-to-image',
          words: 'for editing images',
          read: (answer, call) => readImages(services, call, answer, fields.response_format),
        },
      )
    },
  })

export const createImageEdit = changeRoute({
  operationId: 'createImageEdit',
  path: '/images/edits',
  summary: 'Edit an image according to a prompt',
  form: CreateImageEdit,
  fields: ImageEditFields,
})
export const createImageVariation = changeRoute({
  operationId: 'createImageVariation',
  path: '/images/variations',
  summary: 'Generate variations of an image',
  form: CreateImageVariation,
  fields: ImageVariationFields,
})
