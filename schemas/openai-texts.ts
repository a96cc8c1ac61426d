import Type, { type Static, type TSchema } from 'typebox'
import { Vocabulary } from './common.ts'

// Requests and answers about texts, other than chats, in the shapes of OpenAI's and Cohere's API references. The model
// server checks what a model can take, and answers in these shapes; fields that it does not know are left to it.

const Model = Type.String({ minLength: 1, maxLength: 200, description: 'Id of an endpoint, or a name' })
const MAX_TEXTS = 2_048
/** Tokens of one text. */
const MAX_TOKENS = 1_000_000

const Truncate = Type.Optional(
  Type.Boolean({
    description:
      'What becomes of a text that is longer than the model: cut, and said so in `truncated`, or (false) refused with 422',
  }),
)
const Truncated = Type.Optional(Type.Boolean({ description: 'Present when a text was cut' }))
const Usage = Type.Object({
  prompt_tokens: Type.Optional(Type.Integer()),
  total_tokens: Type.Integer(),
})

/** One text, or a list of items. */
const Input = (description: string, items: TSchema | object) =>
  Type.Unsafe<string | unknown[]>({
    type: ['string', 'array'],
    minItems: 1,
    maxItems: MAX_TOKENS,
    items,
    description,
  })

const Token = Type.Integer({ minimum: 0 })
/** Not a union: its check would write a fault for each of a million tokens, because a token is not a text. */
const TextOrTokens = {
  type: ['string', 'integer', 'array'],
  minimum: 0,
  minItems: 1,
  maxItems: MAX_TOKENS,
  items: Token,
}

export const CreateEmbedding = Type.Object(
  {
    model: Model,
    input: Input(
      `A text, up to ${MAX_TEXTS} texts, the tokens of a text, or lists of tokens; tokens are those of the model itself`,
      TextOrTokens,
    ),
    encoding_format: Type.Optional({
      ...Vocabulary('float', 'base64'),
      description: 'Numbers, which is the default, or float32 in little-endian order as base64',
    }),
    dimensions: Type.Optional(
      Type.Integer({ minimum: 1, description: 'The length of the vectors, where the model declares others' }),
    ),
    truncate: Truncate,
  },
  { $id: 'CreateEmbedding' },
)
export type CreateEmbedding = Static<typeof CreateEmbedding>

export const EmbeddingList = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: Type.Integer(),
        embedding: Type.Unsafe<number[] | string>({ type: ['array', 'string'], items: { type: 'number' } }),
      }),
    ),
    model: Type.Optional(Type.String()),
    truncated: Truncated,
    usage: Usage,
  },
  { $id: 'EmbeddingList' },
)

const Document = Type.Unsafe<string | { text: string }>({
  type: ['string', 'object'],
  required: ['text'],
  properties: { text: { type: 'string' } },
})

export const CreateRerank = Type.Object(
  {
    model: Model,
    query: Type.String(),
    documents: Type.Array(Document, { minItems: 1, maxItems: MAX_TEXTS }),
    top_n: Type.Optional(
      Type.Integer({ minimum: 1, description: 'How many of the best to return; all by default' }),
    ),
    return_documents: Type.Optional(Type.Boolean({ description: 'Whether results repeat their document' })),
    truncate: Truncate,
  },
  { $id: 'CreateRerank' },
)
export type CreateRerank = Static<typeof CreateRerank>

export const Reranking = Type.Object(
  {
    id: Type.Optional(Type.String()),
    results: Type.Array(
      Type.Object({
        index: Type.Integer({ description: 'Place of the document in the request' }),
        relevance_score: Type.Number({ description: 'From 0 to 1' }),
        document: Type.Optional(Type.Object({ text: Type.String() })),
      }),
      { description: 'The most relevant first' },
    ),
    model: Type.Optional(Type.String()),
    truncated: Truncated,
    usage: Usage,
  },
  { $id: 'Reranking' },
)

const TextPart = Type.Object({ type: Type.Literal('text'), text: Type.String() })

export const CreateModeration = Type.Object(
  {
    model: Model,
    input: Input(`A text, or up to ${MAX_TEXTS} texts or parts of the type \`text\``, {
      anyOf: [{ type: 'string' }, TextPart],
    }),
    truncate: Truncate,
  },
  { $id: 'CreateModeration' },
)
export type CreateModeration = Static<typeof CreateModeration>

export const Moderation = Type.Object(
  {
    id: Type.Optional(Type.String()),
    model: Type.Optional(Type.String()),
    results: Type.Array(
      Type.Object({
        flagged: Type.Boolean(),
        categories: Type.Record(Type.String(), Type.Boolean()),
        category_scores: Type.Record(Type.String(), Type.Number()),
      }),
    ),
    truncated: Truncated,
    usage: Type.Optional(Usage),
  },
  { $id: 'Moderation' },
)
