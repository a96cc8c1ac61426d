import type { TaskType } from './task-type.ts'

/** The modalities of output files. */
const MODALITIES = ['image', 'audio', 'video', '3d', 'binary'] as const

/** A 32 x 32 pixel PNG with a gradient, for examples and for the first request to a new server. */
const GRADIENT =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAALElEQVR42u3NsQ0AIAzAsCAx9P+LeYJujrL7VLP5bVoNAAAAAAAAAAAA/OoBdkQCbkXtOMsAAAAASUVORK5CYII='

const PROMPT = { type: 'string', minLength: 1, maxLength: 10_000, description: 'What to generate.' }
const IMAGE_URL = {
  type: 'string',
  minLength: 1,
  description: 'A PNG, JPEG or WebP: a URL from upload-input, a public HTTPS address, or a data: URL.',
}
const SIDE = {
  type: 'integer',
  minimum: 16,
  maximum: 2_048,
  description: 'In pixels; must be a multiple of the step that the model requires, usually 8.',
}
const SEED = {
  type: 'integer',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'The same seed reproduces the same output. Random by default; the metadata contain the seed.',
}
const SIZE = { width: SIDE, height: SIDE }
const NUM_IMAGES = {
  type: 'integer',
  minimum: 1,
  maximum: 10,
  default: 1,
  description: 'How many to generate, with consecutive seeds.',
}
const DIFFUSION = {
  num_inference_steps: { type: 'integer', minimum: 1, maximum: 1_000 },
  guidance_scale: {
    type: 'number',
    minimum: 0,
    maximum: 100,
    description: 'How closely to follow the prompt.',
  },
  seed: SEED,
}
const NEGATIVE_PROMPT = { type: 'string', maxLength: 10_000, description: 'What to avoid.' }
const FRAMES = {
  num_frames: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000,
    description: 'Some models round it; the metadata contain the actual number.',
  },
  fps: { type: 'integer', minimum: 1, maximum: 60, default: 8, description: 'Frames per second.' },
}
const FORMAT = { type: 'string', enum: ['glb', 'obj', 'ply', 'stl'], default: 'glb' }
/** `pcm` is 16-bit at 24 kHz without a header. */
const SOUND_FORMATS = ['wav', 'mp3', 'opus', 'aac', 'flac', 'pcm']
const DURATION_S = { type: 'number', minimum: 0.1, maximum: 600 }

const OUTPUT_SCHEMA = {
  type: 'object',
  required: ['output_artifacts', 'metadata'],
  properties: {
    output_artifacts: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['filename', 'url', 'content_type', 'size_bytes', 'modality'],
        properties: {
          filename: { type: 'string' },
          url: { type: 'string', description: 'Valid for 24 hours; every read of the task signs a new one.' },
          expires_at: { type: 'string', format: 'date-time' },
          content_type: { type: 'string' },
          size_bytes: { type: 'integer', minimum: 0 },
          modality: { type: 'string', enum: MODALITIES },
        },
      },
    },
    metadata: {
      type: 'object',
      properties: { seed: { type: 'integer' }, steps: { type: 'integer' } },
    },
  },
}

interface MediaKind {
  category: string
  modality: (typeof MODALITIES)[number]
  filename: string
  content_type: string
}

const IMAGE_OUTPUT: MediaKind = {
  category: 'generative',
  modality: 'image',
  filename: 'image.png',
  content_type: 'image/png',
}
const AUDIO_OUTPUT: MediaKind = {
  category: 'generative',
  modality: 'audio',
  filename: 'audio.wav',
  content_type: 'audio/wav',
}
const VIDEO_OUTPUT: MediaKind = {
  category: 'generative',
  modality: 'video',
  filename: 'video.mp4',
  content_type: 'video/mp4',
}
const SCENE: MediaKind = {
  category: 'generative',
  modality: '3d',
  filename: 'scene.glb',
  content_type: 'model/gltf-binary',
}

interface RequestSpec {
  required: string[]
  properties: Record<string, object>
  example: Record<string, unknown>
  /** The smallest real request. */
  warmup: Record<string, unknown>
}

const generative = (
  { category, modality, filename, content_type }: MediaKind,
  { required, properties, example, warmup }: RequestSpec,
): TaskType => ({
  kind: 'generative',
  category,
  input_schema: { type: 'object', required, properties },
  output_schema: OUTPUT_SCHEMA,
  example_input: example,
  example_output: {
    output_artifacts: [
      {
        filename,
        url: `https://hearth.example/objects/${filename}`,
        expires_at: '2026-01-02T00:00:00.000Z',
        content_type,
        size_bytes: 380_210,
        modality,
      },
    ],
    metadata: { seed: 7, steps: 20 },
  },
  files: 'image_url' in properties ? ['image_url'] : [],
  namesModel: false,
  warmup_input: warmup,
})

const SMALL = { width: 64, height: 64 }
const ONE_STEP = { num_inference_steps: 1 }

/** The task types that return files. */
export const GENERATIVE_TASK_TYPES: Readonly<Record<string, TaskType>> = {
  'text-to-image': generative(IMAGE_OUTPUT, {
    required: ['prompt'],
    properties: {
      prompt: PROMPT,
      negative_prompt: NEGATIVE_PROMPT,
      num_images: NUM_IMAGES,
      ...SIZE,
      ...DIFFUSION,
    },
    example: { prompt: 'A lighthouse at dusk', width: 512, height: 512, num_inference_steps: 20, seed: 7 },
    warmup: { prompt: 'A lighthouse', ...SMALL, ...ONE_STEP },
  }),
  'image-to-image': generative(IMAGE_OUTPUT, {
    required: ['image_url'],
    properties: {
      image_url: IMAGE_URL,
      prompt: PROMPT,
      negative_prompt: NEGATIVE_PROMPT,
      strength: {
        type: 'number',
        minimum: 0.01,
        maximum: 1,
        description: 'How much of the image changes.',
      },
      num_images: NUM_IMAGES,
      ...SIZE,
      ...DIFFUSION,
    },
    example: { image_url: GRADIENT, prompt: 'The same in winter', seed: 7 },
    warmup: { prompt: 'A lighthouse', image_url: GRADIENT, ...SMALL, num_inference_steps: 2 },
  }),
  'image-to-3d': generative(SCENE, {
    required: ['image_url'],
    properties: { image_url: IMAGE_URL, format: FORMAT, ...DIFFUSION },
    example: { image_url: GRADIENT, format: 'glb', seed: 7 },
    warmup: { image_url: GRADIENT, ...ONE_STEP },
  }),
  'text-to-3d': generative(SCENE, {
    required: ['prompt'],
    properties: { prompt: PROMPT, format: FORMAT, ...DIFFUSION },
    example: { prompt: 'A wooden chair', format: 'glb', seed: 7 },
    warmup: { prompt: 'A chair', ...ONE_STEP },
  }),
  'text-to-audio': generative(AUDIO_OUTPUT, {
    required: ['prompt'],
    properties: { prompt: PROMPT, negative_prompt: NEGATIVE_PROMPT, duration_s: DURATION_S, ...DIFFUSION },
    example: { prompt: 'Waves on a beach', duration_s: 5, seed: 7 },
    warmup: { prompt: 'Waves', duration_s: 0.2 },
  }),
  'text-to-speech': generative(AUDIO_OUTPUT, {
    required: ['text'],
    properties: {
      text: { ...PROMPT, description: 'What to say.' },
      voice_preset: {
        type: 'string',
        maxLength: 200,
        description: 'The number of a speaker, from "0"; an unknown name selects the first speaker.',
      },
      format: { type: 'string', enum: SOUND_FORMATS, default: 'wav' },
      speed: { type: 'number', minimum: 0.25, maximum: 4, default: 1 },
      seed: SEED,
    },
    example: { text: 'Good morning.', voice_preset: '0', seed: 7 },
    warmup: { text: 'hello' },
  }),
  'text-to-video': generative(VIDEO_OUTPUT, {
    required: ['prompt'],
    properties: { prompt: PROMPT, negative_prompt: NEGATIVE_PROMPT, ...FRAMES, ...SIZE, ...DIFFUSION },
    example: { prompt: 'A lighthouse in a storm', num_frames: 17, seed: 7 },
    warmup: { prompt: 'A lighthouse', num_frames: 9, ...SMALL, ...ONE_STEP },
  }),
  'image-to-video': generative(VIDEO_OUTPUT, {
    required: ['image_url'],
    properties: { image_url: IMAGE_URL, ...FRAMES, ...SIZE, ...DIFFUSION },
    example: { image_url: GRADIENT, num_frames: 14, seed: 7 },
    warmup: { image_url: GRADIENT, num_frames: 2, ...SMALL, ...ONE_STEP },
  }),
}
