import Type, { type Static } from 'typebox'
import { Vocabulary } from '../common.ts'
import { Formed } from '../forms.ts'

// Image requests and responses, in the shapes of OpenAI's API reference.

const Prompt = Type.String({ minLength: 1, maxLength: 10_000 })

/** The fields that all image routes share; fields without a meaning here accept only their default values. */
const COMMON = {
  model: Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' }),
  n: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10,
      default: 1,
      description: 'How many images to generate, with consecutive seeds',
    }),
  ),
  size: Type.Optional(
    Formed(
      '^(auto|\\d{2,4}x\\d{2,4})$',
      'must be auto, or a width and a height in pixels, for example 512x512',
      {
        description:
          'A width and height that the model supports; `auto` uses its default, or the size of `image`',
      },
    ),
  ),
  response_format: Type.Optional({
    ...Vocabulary('b64_json', 'url'),
    default: 'b64_json',
    description: 'The bytes, which are not stored, or a URL valid for 24 hours',
  }),
  seed: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  negative_prompt: Type.Optional(Type.String({ maxLength: 10_000 })),
  num_inference_steps: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
  guidance_scale: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  output_format: Type.Optional(Vocabulary('png')),
  background: Type.Optional(Vocabulary('auto', 'opaque')),
  quality: Type.Optional(Vocabulary('auto', 'standard')),
  stream: Type.Optional(Type.Unsafe<false>({ type: 'boolean', enum: [false] })),
}

export const CreateImage = Type.Object(
  { ...COMMON, prompt: Prompt, style: Type.Optional(Vocabulary('natural')) },
  { $id: 'CreateImage' },
)
export type CreateImage = Static<typeof CreateImage>

const STRENGTH = Type.Optional(
  Type.Number({ minimum: 0.01, maximum: 1, description: 'How much of the image changes' }),
)
const IMAGE = Type.Unsafe({
  type: 'string',
  format: 'binary',
  description: 'One PNG, JPEG or WebP of at most 25 MB',
})

export const ImageEditFields = Type.Object({ ...COMMON, prompt: Prompt, strength: STRENGTH })
export const CreateImageEdit = Type.Object(
  { image: IMAGE, ...ImageEditFields.properties },
  { $id: 'CreateImageEdit' },
)

export const ImageVariationFields = Type.Object({ ...COMMON, strength: STRENGTH })
export const CreateImageVariation = Type.Object(
  { image: IMAGE, ...ImageVariationFields.properties },
  { $id: 'CreateImageVariation' },
)

export const ImageList = Type.Object(
  {
    created: Type.Integer({ description: 'Seconds since 1970' }),
    data: Type.Array(
      Type.Object({
        b64_json: Type.Optional(Type.String()),
        url: Type.Optional(
          Type.String({ description: 'Valid for 24 hours; every read of the task returns a new URL' }),
        ),
      }),
    ),
    output_format: Type.Literal('png'),
    size: Type.Optional(Type.String()),
    seed: Type.Optional(Type.Integer({ description: 'The seed of the first image' })),
    truncated: Type.Optional(Type.Boolean({ description: 'Present when the prompt was truncated' })),
  },
  { $id: 'ImageList' },
)
export type ImageList = Static<typeof ImageList>
