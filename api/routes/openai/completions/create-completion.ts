import { checkChatLimits } from '../../../../domain/chat/limits.ts'
import { chatOfCompletion, CompletionBuilder } from '../../../../domain/completions/completions.ts'
import { Completion, CreateCompletion } from '../../../../schemas/openai/completions.ts'
import { route } from '../../../http/route.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { admitChat } from '../chat-completions/admit-chat.ts'
import { MAX_CHAT_BYTES } from '../chat-completions/create-chat-completion.ts'
import { answerTranslated } from '../translated/answer-translated.ts'

export const createCompletion = route({
  operationId: 'createCompletion',
  summary: 'Complete a prompt, with one response or a stream of events',
  method: 'POST',
  path: '/completions',
  auth: 'api-key',
  admitsWork: true,
  body: CreateCompletion,
  maxBodyBytes: MAX_CHAT_BYTES,
  success: {
    status: 200,
    schema: Completion,
    description: 'With `stream`: server-sent `text_completion` events, the last one `data: [DONE]`',
  },
  errors: CALL_ERRORS,

  async handler({ caller, body, disconnect, res }, services) {
    const chatRequest = chatOfCompletion(body)
    checkChatLimits(chatRequest, ['body'], { messages: 'prompt' })
    const bytes = Buffer.from(JSON.stringify(chatRequest))
    const { model } = body
    const chat = await admitChat(services, { caller, model, body: bytes, disconnect, chatRequest })
    const builder = new CompletionBuilder(body, chat.draft)
    return answerTranslated(services, chat, res, {
      isStreamed: body.stream ?? false,
      whole: (completion) => builder.fromCompletion(completion),
      events: () => builder,
    })
  },
})
