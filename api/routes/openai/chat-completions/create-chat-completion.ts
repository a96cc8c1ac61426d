import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { checkChatLimits } from '../../../../domain/chat/limits.ts'
import { checkMessages } from '../../../../domain/chat/messages.ts'
import { invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { ChatCompletion, CreateChatCompletion } from '../../../../schemas/openai.ts'
import { route } from '../../../http/route.ts'
import { chatEndpoint } from '../chat-endpoint.ts'
import { answerStream } from './answer-stream.ts'
import { answerWhole } from './answer-whole.ts'
import { modelIn } from './chat.ts'

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
        body: request.rawBody,
        modelPlace,
        memory: services.memory.forRequest(draft),
        disconnect: request.disconnect,
      }
      return request.body.stream ? answerStream(services, chat, request.res) : answerWhole(services, chat)
    }
    const found = chatEndpoint(services, accountId, request.body.model)
    return found instanceof Promise ? found.then(answer) : answer(found)
  },
})
