import type { ServerResponse } from 'node:http'
import { ApiError } from '../../../../domain/errors.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import type { Reply } from '../../../http/reply.ts'
import type { Services } from '../../../services.ts'
import { objectIn } from '../calls/answer-text.ts'
import { respondBuffered, type ClientResponse } from '../calls/respond-buffered.ts'
import { type Chat, chatBytes } from '../chat-completions/chat.ts'
import { readAnswer } from '../chat-completions/read-answer.ts'
import { respondStreamed } from '../chat-completions/respond-streamed.ts'
import { type EventTranslator, TranslatedStream } from './translated-stream.ts'

/** How to translate chat responses for another route. */
export interface Translation {
  isStreamed: boolean
  /** Converts a complete chat to the route's response. */
  whole: (completion: Record<string, unknown>) => object
  events: () => EventTranslator
}

/** Answers a chat request in another route's format. */
export function answerTranslated(
  services: Services,
  chat: Chat,
  res: ServerResponse,
  { isStreamed, whole, events }: Translation,
): Promise<Reply> {
  if (isStreamed)
    return respondStreamed(services, chat, res, (client) => new TranslatedStream(client, events()))
  const read = (answer: NodeResponse): ClientResponse | ApiError => {
    const given = readAnswer(answer, chat.memory)
    if (given instanceof ApiError) return given
    answer.room.holdValues(given.body)
    const completion = objectIn(given.body)
    if (!completion) return new ApiError('internal', 'the model did not return a JSON object')
    return { body: Buffer.from(JSON.stringify(whole(completion))), tokens: given.tokens }
  }
  return respondBuffered(services, chat, { bytesFor: chatBytes(chat), read })
}
