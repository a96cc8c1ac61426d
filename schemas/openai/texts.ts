import Type, { type Static, type TSchema } from 'typebox'
import { Vocabulary } from '../common.ts'

// Text requests and responses other than chats, in the shapes of OpenAI's and Cohere's API references. The model server
// checks what a model supports and responds in these shapes. Unknown fields are passed on to it.

const Model = Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' })
const MAX_TEXTS = 2_048
/** The maximum number of tokens in one text. */
const MAX_TOKENS = 1_000_000

const Truncate = Type.Optional(
  Type.Boolean({
    description:
      'Whether to truncate a text that is too long for the model and report it in `truncated`; false rejects it with 422',
  }),
)
const Truncated = Type.Optional(Type.Boolean({ description: 'Present when a text was truncated' }))
const Usage = Type.Object({
  prompt_tokens: Type.Optional(Type.Integer()),
  total_tokens: Type.Integer(),
})

/** One text or a list of items. */
const Input = (description: string, items: TSchema | object) =>
  Type.Unsafe<string | unknown[]>({
    type: ['string', 'array'],
    minItems: 1,
    maxItems: MAX_TOKENS,
    items,
    description,
  })

const Token = Type.Integer({ minimum: 0 })
/**
 * We don't use a union, because its check would produce an error for each of a million tokens: a token isn't a string.
 */
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
      `A string, up to ${MAX_TEXTS} strings, the tokens of one string, or lists of tokens; tokens must come from the model's own tokenizer`,
      TextOrTokens,
    ),
    encoding_format: Type.Optional({
      ...Vocabulary('float', 'base64'),
      description: 'Numbers (the default), or little-endian float32 in base64',
    }),
    dimensions: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'The vector length, if the model supports lengths other than its default',
      }),
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
      Type.Integer({ minimum: 1, description: 'How many of the best documents to return; all by default' }),
    ),
    return_documents: Type.Optional(Type.Boolean({ description: 'Whether results include their document' })),
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
        index: Type.Integer({ description: 'Index of the document in the request' }),
        relevance_score: Type.Number({ description: 'From 0 to 1' }),
        document: Type.Optional(Type.Object({ text: Type.String() })),
      }),
      { description: 'Most relevant first' },
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
    input: Input(`A string, or up to ${MAX_TEXTS} strings or parts of type \`text\``, {
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
