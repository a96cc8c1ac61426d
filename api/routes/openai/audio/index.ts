import { createSpeech } from './create-speech.ts'
import { createTranscription, createTranslation } from './create-transcription.ts'

export const audio = [createSpeech, createTranscription, createTranslation]
