import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { CreateSpeech } from '../../../../schemas/openai/audio.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import { route } from '../../../http/route.ts'
import { answerCall } from '../calls/answer-call.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { readFiles } from '../calls/read-files.ts'
import type { ClientResponse } from '../calls/respond-buffered.ts'

const USUAL_TYPE = 'audio/mpeg'
const OTHER_TYPES = ['audio/ogg', 'audio/aac', 'audio/flac', 'audio/wav', 'audio/pcm']
const TYPES: ReadonlySet<string> = new Set([USUAL_TYPE, ...OTHER_TYPES])
/** Speaker names that fit into a header. */
const VOICE = /^[\x20-\x7e]{1,200}$/

export const createSpeech = route({
  operationId: 'createSpeech',
  summary: 'Generate speech from text',
  method: 'POST',
  path: '/audio/speech',
  auth: 'api-key',
  admitsWork: true,
  body: CreateSpeech,
  success: {
    status: 200,
    contentType: USUAL_TYPE,
    otherTypes: OTHER_TYPES,
    description: 'The audio; `X-Voice-Used` names its speaker',
  },
  errors: CALL_ERRORS,

  handler: ({ caller, body, rawBody, disconnect }, services) =>
    answerCall(
      services,
      { caller, disconnect, model: body.model, body: rawBody },
      {
        path: '/v1/audio/speech',
        serves: (taskType) => taskType === 'text-to-speech',
        words: 'for speech',
        read: readSpeech,
      },
    ),
})

async function readSpeech(answer: NodeResponse): Promise<ClientResponse | ApiError> {
  const output = await readFiles(answer)
  if (output instanceof ApiError) return output
  const [file] = output.files
  if (!file) return new ApiError('internal', 'the model returned no files')
  // The node may belong to any account, and a browser would run an HTML response as a page of this origin.
  if (!TYPES.has(file.content_type)) return new ApiError('internal', 'the model returned no audio')
  const { voice } = output.metadata
  const headers = {
    'content-type': file.content_type,
    ...(typeof voice === 'string' && VOICE.test(voice) && { 'x-voice-used': voice }),
  }
  return { body: file.data, headers, tokens: NO_TOKENS }
}
