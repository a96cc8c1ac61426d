import Type, { type Static } from 'typebox'
import { Vocabulary } from '../common.ts'
import { Formed } from '../forms.ts'

/** The name of an engine argument, without its leading dashes. */
const ARGUMENT = '^[a-z][a-z0-9-]{0,99}$'

/** Speculative decoding: the engine drafts tokens cheaply, and the model checks several at once. */
const Speculative = Type.Object(
  {
    method: {
      ...Vocabulary('ngram', 'mtp'),
      description:
        "ngram: drafts repeat parts of the prompt and output; mtp: the model's own layers for multi-token prediction write them",
    },
    num_speculative_tokens: Type.Integer({
      minimum: 1,
      maximum: 64,
      description: 'The number of drafted tokens per step',
    }),
    prompt_lookup_max: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        description: 'ngram only: the maximum length of the sequences to look up. Default: 5',
      }),
    ),
    prompt_lookup_min: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        description: 'ngram only: their minimum length. Default: the maximum',
      }),
    ),
  },
  {
    additionalProperties: false,
    description:
      'Drafts tokens that the model checks together, which shortens responses. Other draft models are not supported',
  },
)

/** How a language model is served. Nodes apply it from their next load of the model. */
export const Serving = Type.Object(
  {
    engine: Type.Optional({
      ...Vocabulary('auto', 'transformers', 'llama-server'),
      description:
        'auto: the best engine of each node, such as vLLM on a GPU; transformers: always the PyTorch server; llama-server, for a GGUF: the upstream server on the nodes that have it. Default: auto',
    }),
    max_model_len: Type.Optional(
      Type.Integer({
        minimum: 16,
        maximum: 10_000_000,
        description:
          "The maximum number of tokens in the prompt and output combined. Default: the model's own context length, as far as the memory allows",
      }),
    ),
    dtype: Type.Optional({
      ...Vocabulary('auto', 'bfloat16', 'float16', 'float32'),
      description: "The type of the weights in memory. Default: auto, the model's own",
    }),
    quantization: Type.Optional({
      ...Vocabulary('fp8', 'bitsandbytes'),
      description: 'Quantizes the weights when they are loaded',
    }),
    gpu_memory_mb: Type.Optional(
      Type.Integer({
        minimum: 1_024,
        maximum: 10_000_000,
        description:
          'GPU memory for weights and KV cache together, on all its GPUs. Default: the weights, plus 6 GB and a third of the weights',
      }),
    ),
    tensor_parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 8,
        description:
          'The number of GPUs of one node that hold the model in equal parts; only nodes with that many load it. Default: 1',
      }),
    ),
    speculative: Type.Optional(Speculative),
    engine_args: Type.Optional(
      Type.Record(
        Formed(ARGUMENT, 'must be the name of an argument without leading dashes'),
        Type.Union([Type.String({ maxLength: 1_000 }), Type.Number(), Type.Boolean()]),
        {
          maxProperties: 32,
          description: 'Further arguments of the engine, from the list in its runtime profile',
        },
      ),
    ),
  },
  { $id: 'Serving', additionalProperties: false, description: 'How nodes serve a language model' },
)
export type Serving = Static<typeof Serving>
