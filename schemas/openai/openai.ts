import Type, { type Static } from 'typebox'
import { RequestedTier } from '../api-key.ts'
import { Nullable, Vocabulary } from '../common.ts'
import { HubOrigin } from '../endpoint.ts'

/** The roles of a chat message in the OpenAI API; `function` is its older name for `tool`. */
export const CHAT_ROLES = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const

/** `content` is optional here because `domain/chat/messages.ts` checks each message and knows which roles need it. */
const Message = Type.Object({
  role: Vocabulary(...CHAT_ROLES),
  content: Type.Optional(
    Type.Unsafe<string | unknown[] | null>({
      type: ['string', 'array', 'null'],
      items: {},
      description: 'Required, except for assistant messages with tool calls, where it may also be null',
    }),
  ),
})

/**
 * The chat fields that the platform checks. All others (`tools`, `tool_choice`, `response_format`, unknown ones) reach
 * the model server unchanged.
 */
export const CreateChatCompletion = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' }),
    messages: Type.Array(Message, { minItems: 1 }),
    max_tokens: Type.Optional(Nullable(Type.Integer({ minimum: 1 }))),
    temperature: Type.Optional(Nullable(Type.Number())),
    stream: Type.Optional(Nullable(Type.Boolean())),
    service_tier: Type.Optional(RequestedTier),
  },
  { $id: 'CreateChatCompletion' },
)
export type CreateChatCompletion = Static<typeof CreateChatCompletion>

/** A response as the model server sent it. The schema describes only the fields that every model server returns. */
export const ChatCompletion = Type.Object(
  {
    id: Type.Optional(Type.String()),
    object: Type.Optional(Type.String()),
    created: Type.Optional(Type.Integer()),
    model: Type.Optional(Type.String()),
    choices: Type.Optional(Type.Array(Type.Object({}))),
    usage: Type.Object({
      prompt_tokens: Type.Optional(Type.Integer()),
      completion_tokens: Type.Optional(Type.Integer()),
      total_tokens: Type.Optional(Type.Integer()),
    }),
  },
  { $id: 'ChatCompletion' },
)

export const ChatModelsQuery = Type.Object({
  task_type: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Lists the models of this task type, for example `embeddings`, instead of the chat models',
    }),
  ),
})

export const ChatModel = Type.Object(
  {
    id: Type.String(),
    object: Type.String(),
    created: Type.Integer({ description: 'Seconds since 1970' }),
    owned_by: Type.String({
      description: 'The account that owns or imported the model; `hearth` or `public` for others',
    }),
    name: Type.String(),
    task_type: Type.String(),
    max_model_len: Type.Optional(
      Type.Integer({
        description:
          'The tokens that prompt and output may take together where the model is loaded now; absent while no node has it loaded or the engine does not report it',
      }),
    ),
    parent: Type.Optional(
      Type.String({ description: 'The name of the model whose server this model is an adapter in' }),
    ),
    ...Type.Partial(HubOrigin).properties,
  },
  { $id: 'ChatModel' },
)
export type ChatModel = Static<typeof ChatModel>

export const ChatModelList = Type.Object(
  { object: Type.String(), data: Type.Array(ChatModel) },
  { $id: 'ChatModelList' },
)
