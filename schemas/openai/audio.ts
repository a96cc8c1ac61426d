import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from '../common.ts'

// Audio requests and responses, in the shapes of OpenAI's API reference.

const Model = Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' })
const Seconds = Type.Number({ minimum: 0, description: 'Seconds from the beginning' })

export const CreateSpeech = Type.Object(
  {
    model: Model,
    input: Type.String({ minLength: 1, maxLength: 10_000, description: 'What to say' }),
    voice: Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        'The number of a speaker, from "0"; an unknown name selects the first speaker; the header `X-Voice-Used` names the speaker used',
    }),
    response_format: Type.Optional({
      ...Vocabulary('mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'),
      default: 'mp3',
      description: '`pcm` is 16-bit little-endian at 24 kHz without a header',
    }),
    speed: Type.Optional(Type.Number({ minimum: 0.25, maximum: 4, default: 1 })),
    stream_format: Type.Optional({
      ...Vocabulary('audio'),
      description: 'Only `audio`: speech is returned in one piece, not as events',
    }),
    instructions: Type.Optional(
      Type.String({
        maxLength: 0,
        description: 'Not supported by any model: only an empty string is accepted',
      }),
    ),
    seed: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  },
  { $id: 'CreateSpeech' },
)

/** The fields of a transcription request, apart from its file. */
export const TranscriptionFields = Type.Object({
  model: Model,
  language: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 20,
      description: 'The spoken language, for example `en`; detected when absent',
    }),
  ),
  prompt: Type.Optional(
    Type.String({ maxLength: 10_000, description: 'The preceding text, as a hint for style and spelling' }),
  ),
  response_format: Type.Optional({
    ...Vocabulary('json', 'text', 'srt', 'verbose_json', 'vtt'),
    default: 'json',
  }),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  'timestamp_granularities[]': Type.Optional(
    Type.Array(Vocabulary('segment', 'word'), {
      minItems: 1,
      maxItems: 2,
      description: 'Which parts of `verbose_json` have timestamps; segments by default',
    }),
  ),
  stream: Type.Optional(
    Type.Boolean({ description: 'Transcripts are returned in one piece: only false is accepted' }),
  ),
})
export type TranscriptionFields = Static<typeof TranscriptionFields>

export const CreateTranscription = Type.Object(
  {
    file: Type.Unsafe({
      type: 'string',
      format: 'binary',
      description: 'Audio of at most 25 MB and 30 minutes, in a format that FFmpeg reads',
    }),
    ...TranscriptionFields.properties,
  },
  { $id: 'CreateTranscription' },
)

export const Transcription = Type.Object(
  {
    text: Type.String({ description: 'Empty when the audio contains no speech' }),
    task: Type.Optional(Vocabulary('transcribe', 'translate')),
    language: Type.Optional(Nullable(Type.String())),
    duration: Type.Optional(Seconds),
    segments: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.Integer(),
          seek: Type.Integer(),
          start: Seconds,
          end: Seconds,
          text: Type.String(),
          tokens: Type.Array(Type.Integer()),
          temperature: Type.Number(),
          avg_logprob: Type.Number(),
          compression_ratio: Type.Number(),
          no_speech_prob: Type.Number(),
        }),
      ),
    ),
    words: Type.Optional(Type.Array(Type.Object({ word: Type.String(), start: Seconds, end: Seconds }))),
    usage: Type.Optional(Type.Object({ type: Type.Literal('duration'), seconds: Type.Number() })),
  },
  { $id: 'Transcription', description: 'With `json` only `text` and `usage`' },
)
export type Transcription = Static<typeof Transcription>
