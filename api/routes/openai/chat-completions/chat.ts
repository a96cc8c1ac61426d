import { isChatCapable, SERVED_MODEL, takesModelName } from '../../../../domain/chat/chat.ts'
import { type ValueSpan, replaceAt } from '../../../../platform/json-bytes.ts'
import type { RequestMemory } from '../../../memory/memory.ts'
import { type ModelCall, modelIn } from '../calls/model-call.ts'
import type { Purpose } from '../calls/model-endpoint.ts'

/** An admitted chat: its endpoint, and the client's bytes. */
export interface Chat extends ModelCall {
  /** The position of the model's name in these bytes. */
  readonly modelPlace: ValueSpan
}

const SERVED_NAME = Buffer.from(JSON.stringify(SERVED_MODEL))

export const CHAT_PURPOSE: Purpose = { serves: isChatCapable, words: 'for chat' }

/**
 * Returns a function that builds the bytes of a chat for a node, with the memory that the key may read at that time.
 */
export function chatBytes(chat: Chat): (version: string) => Buffer | Promise<Buffer> {
  const { memory } = chat
  if (!memory) return (version) => bytesFor(chat, version)
  return async (version) => bytesFor(await remembering(chat, memory), version)
}

async function remembering(chat: Chat, memory: RequestMemory): Promise<Pick<Chat, 'body' | 'modelPlace'>> {
  const body = await memory.addTo(chat.body)
  const modelPlace = body === chat.body ? chat.modelPlace : modelIn(body)
  return modelPlace ? { body, modelPlace } : chat
}

/** The bytes are unchanged, unless the model servers of the node's version accept only one model name. */
const bytesFor = ({ body, modelPlace }: Pick<Chat, 'body' | 'modelPlace'>, version: string): Buffer =>
  takesModelName(version) ? body : replaceAt(body, modelPlace, SERVED_NAME)
