import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { CHAT_PATH } from '../../../../domain/chat/chat.ts'
import { checkChatLimits } from '../../../../domain/chat/limits.ts'
import { checkMessages } from '../../../../domain/chat/messages.ts'
import { invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { ChatCompletion, CreateChatCompletion } from '../../../../schemas/openai.ts'
import { route } from '../../../http/route.ts'
import { answerWhole } from '../calls/answer-whole.ts'
import { modelEndpoint } from '../calls/model-endpoint.ts'
import { answerStream } from './answer-stream.ts'
import { CHAT_PURPOSE, chatBytes, modelIn } from './chat.ts'
import { readAnswer } from './read-answer.ts'

const MAX_BYTES = 16 * 1024 * 1024
const BODY = ['body']
const MESSAGES = ['body', 'messages']

export const createChatCompletion = route({
  operationId: 'createChatCompletion',
  summary: 'Chat with a model, in one answer or as a stream of events',
  method: 'POST',
  path: '/chat/completions',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateChatCompletion,
  maxBodyBytes: MAX_BYTES,
  success: {
    status: 200,
    schema: ChatCompletion,
    description: 'With `stream`: server-sent `chat.completion.chunk` events, the last one `data: [DONE]`',
  },
  errors: ['not_found', 'forbidden', 'conflict', 'model_cold', 'no_capacity', 'unavailable'],

  handler(request, services) {
    const { accountId, keyId } = request.caller
    checkChatLimits(request.body, BODY)
    checkMessages(request.body.messages, MESSAGES)
    const answer = (endpoint: CallableEndpointRow) => {
      const modelPlace = modelIn(request.rawBody)
      // Parsers differ in whether the first or the last of two members counts.
      if (!modelPlace) throw invalid(['body', 'model'], 'stands twice')
      services.journal.admit()
      const draft = {
        endpoint,
        accountId,
        keyId,
        surface: 'openai' as const,
        input: null,
        taskId: newId(),
        createdAt: services.now(),
      }
      const chat = {
        endpoint,
        draft,
        path: CHAT_PATH,
        body: request.rawBody,
        modelPlace,
        memory: services.memory.forRequest(draft),
        disconnect: request.disconnect,
      }
      if (request.body.stream) return answerStream(services, chat, request.res)
      return answerWhole(services, chat, {
        bytesFor: chatBytes(chat),
        read: (whole) => readAnswer(whole, chat.memory),
      })
    }
    const wanted = { accountId, model: request.body.model }
    const found = modelEndpoint(services, wanted, CHAT_PURPOSE)
    return found instanceof Promise ? found.then(answer) : answer(found)
  },
})
