import { createTrainingMerge } from './create-training-merge.ts'

export const trainingMerges = [createTrainingMerge]
