import Type, { type Static } from 'typebox'
import { Vocabulary } from '../common.ts'
import { Formed } from '../forms.ts'

/** The name of an engine argument, without its leading dashes. */
const ARGUMENT = '^[a-z][a-z0-9-]{0,99}$'

/** How a language model is served. Nodes apply it from their next load of the model. */
export const Serving = Type.Object(
  {
    engine: Type.Optional({
      ...Vocabulary('auto', 'transformers'),
      description:
        'auto: the best engine of each node, such as vLLM on a GPU; transformers: always the PyTorch server. Default: auto',
    }),
    max_model_len: Type.Optional(
      Type.Integer({
        minimum: 16,
        maximum: 10_000_000,
        description:
          'The maximum number of tokens in the prompt and output combined. Default: as many as the GPU memory allows',
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
          'GPU memory for weights and KV cache together. Default: the weights, plus 6 GB and a third of the weights',
      }),
    ),
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
