import type { Static } from 'typebox'
import type { CreateTrainingMerge, TrainingMergeAccepted } from '../../schemas/training-merge.ts'
import type { Operations } from '../operations.ts'

/** Merges. Use `runs` to read, await or cancel what `create` started. */
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
