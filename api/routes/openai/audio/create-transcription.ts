import { invalid } from '../../../../domain/errors.ts'
import { CreateTranscription, Transcription, TranscriptionFields } from '../../../../schemas/openai/audio.ts'
import { jsonWithFile, readBufferedFile } from '../../../http/bodies/buffered-file.ts'
import { route } from '../../../http/route.ts'
import { answerCall } from '../calls/answer-call.ts'
import { CALL_ERRORS, FILE_LIMIT } from '../calls/model-call.ts'
import { readTranscription, TRANSCRIPT_TYPES } from './read-transcription.ts'

const GRANULARITIES = 'timestamp_granularities[]'

/** Both routes accept the same form, and differ in the task of the speech model. */
const speechRoute = (operationId: string, path: `/audio/${string}`, summary: string) =>
  route({
    operationId,
    summary,
    method: 'POST',
    path,
    auth: 'api-key',
    admitsWork: true,
    stream: { contentTypes: ['multipart/form-data'], schema: CreateTranscription, file: FILE_LIMIT },
    success: { status: 200, schema: Transcription, otherTypes: Object.values(TRANSCRIPT_TYPES) },
    errors: CALL_ERRORS,

    async handler(request, services) {
      const { caller, disconnect } = request
      const form = { file: 'file', limit: FILE_LIMIT, fields: TranscriptionFields }
      const { fields, file } = await readBufferedFile(request, form)
      checkTogether(fields)
      const { response_format: format = 'json', stream: _, ...asked } = fields
      return answerCall(
        services,
        { caller, disconnect, model: fields.model, body: jsonWithFile(asked, 'file', file) },
        {
          path: `/v1${path}`,
          serves: (taskType) => taskType === 'stt',
          words: 'for speech to text',
          read: (answer) => readTranscription(answer, format),
        },
      )
    },
  })

/** Throws a 422 for combinations of fields that are not supported. */
function checkTogether({ response_format: format, stream, ...fields }: TranscriptionFields): void {
  if (stream) throw invalid(['body', 'stream'], 'must be false: transcripts are not streamed')
  if (fields[GRANULARITIES] && format !== 'verbose_json') {
    throw invalid(
      ['body', GRANULARITIES],
      'needs response_format verbose_json, the only format with timestamps',
    )
  }
}

export const createTranscription = speechRoute(
  'createTranscription',
  '/audio/transcriptions',
  'Transcribe speech',
)
export const createTranslation = speechRoute(
  'createTranslation',
  '/audio/translations',
  'Translate speech in any language into English text',
)
