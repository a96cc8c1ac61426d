import type { TSchema } from 'typebox'
import type { OPERATION_SLUGS } from '../../domain/actions/kind.ts'
import { MergeToolInput, RetrainToolInput } from '../../schemas/tool.ts'
import { TrainingMergeAccepted } from '../../schemas/training-merge.ts'
import { TrainingRunAccepted } from '../../schemas/training-run.ts'
import type { AnyRoute } from '../http/route.ts'
import { createTrainingMerge } from '../routes/builder/training-merges/create-training-merge.ts'
import { createTrainingRun } from '../routes/builder/training-runs/create-training-run.ts'

/** A platform operation that every account's manifest lists as an action; its work is a job. */
export interface OperationAction {
  readonly slug: (typeof OPERATION_SLUGS)[number]
  readonly displayName: string
  readonly description: string
  /** The operation; the action's input is its request body. */
  readonly operation: AnyRoute
  readonly inputSchema: TSchema
  readonly outputSchema: TSchema
  readonly latencyClass: 'minutes' | 'long'
}

/** The operation tools, which every manifest contains. */
export const OPERATION_ACTIONS: readonly OperationAction[] = [
  {
    slug: 'training.merge',
    displayName: 'Merge models',
    description: 'Merges models, or adapters into a base, into one new model version.',
    operation: createTrainingMerge,
    inputSchema: MergeToolInput,
    outputSchema: TrainingMergeAccepted,
    latencyClass: 'minutes',
  },
  {
    slug: 'training.retrain_on',
    displayName: 'Retrain a model on a dataset',
    description: 'Trains an existing model further on a dataset and creates a new version of it.',
    operation: createTrainingRun,
    inputSchema: RetrainToolInput,
    outputSchema: TrainingRunAccepted,
    latencyClass: 'long',
  },
]

const bySlug = new Map<string, OperationAction>(OPERATION_ACTIONS.map((action) => [action.slug, action]))

export const operationAction = (slug: string): OperationAction | undefined => bySlug.get(slug)
