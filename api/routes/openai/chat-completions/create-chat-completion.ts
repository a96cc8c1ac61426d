import { checkChatLimits } from '../../../../domain/chat/limits.ts'
import { checkMessages } from '../../../../domain/chat/messages.ts'
import { ChatCompletion, CreateChatCompletion } from '../../../../schemas/openai/openai.ts'
import { route } from '../../../http/route.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { respondBuffered } from '../calls/respond-buffered.ts'
import { admitChat } from './admit-chat.ts'
import { type Chat, chatBytes } from './chat.ts'
import { readAnswer } from './read-answer.ts'
import { respondStreamed } from './respond-streamed.ts'

/** The maximum size of a chat's body. */
export const MAX_CHAT_BYTES = 16 * 1024 * 1024
const BODY = ['body']
const MESSAGES = ['body', 'messages']

export const createChatCompletion = route({
  operationId: 'createChatCompletion',
  summary: 'Chat with a model, with one response or a stream of events',
  method: 'POST',
  path: '/chat/completions',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  body: CreateChatCompletion,
  maxBodyBytes: MAX_CHAT_BYTES,
  success: {
    status: 200,
    schema: ChatCompletion,
    description: 'With `stream`: server-sent `chat.completion.chunk` events, the last one `data: [DONE]`',
  },
  errors: CALL_ERRORS,

  handler(request, services) {
    // Only streams read `res`: reading it sets every header individually, which costs 2 µs per chat.
    const { caller, body, rawBody, disconnect } = request
    checkChatLimits(body, BODY)
    checkMessages(body.messages, MESSAGES)
    const answer = (chat: Chat) =>
      body.stream
        ? respondStreamed(services, chat, request.res)
        : respondBuffered(services, chat, {
            bytesFor: chatBytes(chat),
            read: (whole) => readAnswer(whole, chat.memory),
          })
    const chat = admitChat(services, {
      caller,
      model: body.model,
      body: rawBody,
      disconnect,
      chatRequest: body,
    })
    return chat instanceof Promise ? chat.then(answer) : answer(chat)
  },
})
