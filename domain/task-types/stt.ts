import type { TaskType } from './task-type.ts'

/** A WAV of a short tone. Callers can send the example as a request, so it doesn't reference a file on the internet. */
const EXAMPLE_AUDIO =
  'data:audio/wav;base64,UklGRrQBAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YZABAACAkqOwuby5sKOSf21cT0ZERk9cbYCSo7C5vLmwo5KAbVxPRkRGT1xtgJKjsLm8ubCjkoBtXE9GREZPXG1/kqOwuby5sKOSf21cT0ZERk9cbYCSo7C5vLmwo5KAbVxPRkRGT1xtf5KjsLm8ubCjkn9tXE9GREZPXG1/kqOwuby5sKOSf21cT0ZERk9cbYCSo7C5vLmwo5J/bVxPRkRGT1xtgJKjsLm8ubCjkoBtXE9GREZPXG1/kqOwuby5sKOSf21cT0ZERk9cbX+So7C5vLmwo5J/bVxPRkRGT1xtgJKjsLm8ubCjkoBtXE9GREZPXG1/kqOwuby5sKOSf21cT0ZERk9cbYCSo7C5vLmwo5KAbVxPRkRGT1xtgJKjsLm8ubCjkoBtXE9GREZPXG2AkqOwuby5sKOSgG1cT0ZERk9cbYCSo7C5vLmwo5KAbVxPRkRGT1xtf5KjsLm8ubCjkn9tXE9GREZPXG1/kqOwuby5sKOSgG1cT0ZERk9cbYCSo7C5vLmwo5J/bVxPRkRGT1xt'

const SECONDS = { type: 'number', minimum: 0 }

/** Speech to text. */
export const stt: TaskType = {
  kind: 'specialist',
  category: 'audio',
  input_schema: {
    type: 'object',
    required: ['audio_url'],
    properties: {
      audio_url: {
        type: 'string',
        description: 'Audio of at most 30 minutes: an upload, a public HTTPS address, or a base64 data: URL.',
      },
      language: {
        type: 'string',
        description: 'The spoken language, for example `en`; detected when absent.',
      },
      task: {
        enum: ['transcribe', 'translate'],
        default: 'transcribe',
        description: '`translate` translates into English.',
      },
      timestamps: {
        type: 'boolean',
        default: true,
        description: 'Whether each segment gets its own timestamps.',
      },
    },
  },
  output_schema: {
    type: 'object',
    required: ['text', 'duration_s', 'segments'],
    properties: {
      text: { type: 'string', description: 'Empty when the audio contains no speech.' },
      language: { type: ['string', 'null'] },
      duration_s: SECONDS,
      segments: {
        type: 'array',
        items: {
          type: 'object',
          required: ['start', 'end', 'text', 'no_speech_prob'],
          properties: {
            start: SECONDS,
            end: SECONDS,
            text: { type: 'string' },
            no_speech_prob: { type: 'number', minimum: 0, maximum: 1 },
          },
        },
      },
    },
  },
  example_input: { audio_url: EXAMPLE_AUDIO },
  example_output: {
    text: 'Hello.',
    language: 'en',
    duration_s: 1.2,
    segments: [{ start: 0, end: 1.2, text: ' Hello.', no_speech_prob: 0.01 }],
  },
  files: ['audio_url'],
  namesModel: true,
}
