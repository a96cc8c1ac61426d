import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { toSrt, toVtt } from '../../../../domain/speech/subtitles.ts'
import type { Transcription, TranscriptionFields } from '../../../../schemas/openai/audio.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import { objectIn } from '../calls/answer-text.ts'
import { refusalOf } from '../calls/model-call.ts'
import type { ClientResponse } from '../calls/respond-buffered.ts'

type Format = NonNullable<TranscriptionFields['response_format']>

/** The content types of the formats that are not JSON. */
export const TRANSCRIPT_TYPES = {
  text: 'text/plain; charset=utf-8',
  srt: 'application/x-subrip; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
} as const

const WRITE: Record<keyof typeof TRANSCRIPT_TYPES, (heard: Transcription) => string> = {
  text: ({ text }) => `${text}\n`,
  srt: ({ segments = [] }) => toSrt(segments),
  vtt: ({ segments = [] }) => toVtt(segments),
}

/** Converts a transcription from the model server's verbose format to the format that the client requested. */
export function readTranscription(
  { head: { status }, body, room }: NodeResponse,
  format: Format,
): ClientResponse | ApiError {
  if (status !== 200) return refusalOf(status, body, undefined)
  if (format === 'verbose_json') return { body, tokens: NO_TOKENS }
  room.holdValues(body)
  const heard = objectIn(body) as Transcription | undefined
  if (!heard) return new ApiError('internal', 'the model did not return a JSON object')
  const { text, usage } = heard
  if (format === 'json') return { body: Buffer.from(JSON.stringify({ text, usage })), tokens: NO_TOKENS }
  return {
    body: Buffer.from(WRITE[format](heard)),
    headers: { 'content-type': TRANSCRIPT_TYPES[format] },
    tokens: NO_TOKENS,
  }
}
