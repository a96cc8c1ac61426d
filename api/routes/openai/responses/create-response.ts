import { checkChatLimits } from '../../../../domain/chat/limits.ts'
import { chatOf } from '../../../../domain/responses/chat-of.ts'
import { ResponseEvents } from '../../../../domain/responses/events.ts'
import { ResponseBuilder } from '../../../../domain/responses/response.ts'
import { CreateResponse, ModelResponse } from '../../../../schemas/openai/responses.ts'
import { route } from '../../../http/route.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { admitChat } from '../chat-completions/admit-chat.ts'
import { MAX_CHAT_BYTES } from '../chat-completions/create-chat-completion.ts'
import { answerTranslated } from '../translated/answer-translated.ts'

/** Fields that have a different name in a chat. */
const NAMES = { messages: 'input', max_tokens: 'max_output_tokens', response_format: 'text' }

export const createResponse = route({
  operationId: 'createResponse',
  summary:
    "Call a model in the format of OpenAI's Responses API, with function tools, with one response or a stream of events",
  method: 'POST',
  path: '/responses',
  auth: 'api-key',
  admitsWork: true,
  body: CreateResponse,
  maxBodyBytes: MAX_CHAT_BYTES,
  success: {
    status: 200,
    schema: ModelResponse,
    description: 'With `stream`: server-sent events from `response.created` to `response.completed`',
  },
  errors: CALL_ERRORS,

  async handler({ caller, body, disconnect, res }, services) {
    const chatRequest = chatOf(body)
    checkChatLimits(chatRequest, ['body'], NAMES)
    const bytes = Buffer.from(JSON.stringify(chatRequest))
    const { model } = body
    const chat = await admitChat(services, {
      caller,
      model,
      body: bytes,
      disconnect,
      chatRequest: { ...body, ...chatRequest },
    })
    const builder = new ResponseBuilder(body, chat.draft)
    return answerTranslated(services, chat, res, {
      isStreamed: body.stream ?? false,
      whole: (completion) => builder.fromCompletion(completion),
      events: () => new ResponseEvents(builder),
    })
  },
})
