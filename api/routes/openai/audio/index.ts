import { createTranscription, createTranslation } from './create-transcription.ts'

export const audio = [createTranscription, createTranslation]
