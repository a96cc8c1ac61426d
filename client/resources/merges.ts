import type { Static } from 'typebox'
import type { CreateTrainingMerge, TrainingMergeAccepted } from '../../schemas/training-merge.ts'
import type { Operations } from '../operations.ts'

/** Merges. What `create` has begun is read, waited for and cancelled as a run. */
export function merges(on: Operations) {
  return {
    create: on.send<[], CreateTrainingMerge, Static<typeof TrainingMergeAccepted>>({
      id: 'createTrainingMerge',
      method: 'POST',
      path: '/training/merges',
      idempotent: true,
    }),
  }
}
