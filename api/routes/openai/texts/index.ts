import { createEmbedding } from './create-embedding.ts'
import { createModeration } from './create-moderation.ts'
import { createRerank } from './create-rerank.ts'

export const texts = [createEmbedding, createModeration, createRerank]
