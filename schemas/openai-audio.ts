import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

// Requests and answers about sounds in the shapes of OpenAI's API reference.

const Model = Type.String({ minLength: 1, maxLength: 200, description: 'Id of an endpoint, or a name' })
const Seconds = Type.Number({ minimum: 0, description: 'In seconds from the beginning' })

export const CreateSpeech = Type.Object(
  {
    model: Model,
    input: Type.String({ minLength: 1, maxLength: 10_000, description: 'What to say' }),
    voice: Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        'The number of a speaker, from "0"; a name that the model lacks is its first speaker, and the header `X-Voice-Used` says which one speaks',
    }),
    response_format: Type.Optional({
      ...Vocabulary('mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'),
      default: 'mp3',
      description: '`pcm` is 16 bits at 24 kHz in little-endian order without a head',
    }),
    speed: Type.Optional(Type.Number({ minimum: 0.25, maximum: 4, default: 1 })),
    stream_format: Type.Optional({
      ...Vocabulary('audio'),
      description: 'Speech comes in one piece, and not as events',
    }),
    instructions: Type.Optional(
      Type.String({ maxLength: 0, description: 'No model takes any: only an empty text is taken' }),
    ),
    seed: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  },
  { $id: 'CreateSpeech' },
)

/** The form of a transcription, apart from its file. */
export const TranscriptionFields = Type.Object({
  model: Model,
  language: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 20,
      description: 'The language that is spoken, for example `en`; it is recognised when absent',
    }),
  ),
  prompt: Type.Optional(
    Type.String({ maxLength: 10_000, description: 'A text that goes before, for style and spelling' }),
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
      description: 'Which parts of `verbose_json` have times; segments by default',
    }),
  ),
  stream: Type.Optional(Type.Boolean({ description: 'Transcripts come in one piece: only false is taken' })),
})
export type TranscriptionFields = Static<typeof TranscriptionFields>

export const CreateTranscription = Type.Object(
  {
    file: Type.Unsafe({
      type: 'string',
      format: 'binary',
      description: 'A sound of at most 25 MB and 30 minutes in a format that FFmpeg reads',
    }),
    ...TranscriptionFields.properties,
  },
  { $id: 'CreateTranscription' },
)

export const Transcription = Type.Object(
  {
    text: Type.String({ description: 'Empty when nobody speaks' }),
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
