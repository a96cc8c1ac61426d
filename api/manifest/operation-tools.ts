import type { ToolManifest } from '../../schemas/tool.ts'
import { OPERATION_ACTIONS, type OperationAction } from '../actions/operation-actions.ts'
import { Tool } from './tool.ts'

type ManifestDetails = Pick<ToolManifest, 'version' | 'examples'>

const JOB = '0198c3f0-5b1e-7c41-9d27-3a64f1d0a8e2'
const [DATASET, FIRST, SECOND] = [
  '0198c3f0-2f4a-7d13-8c5e-6b9d02e417aa',
  '0198c3f0-41c7-7b02-a1f3-0c8e57d6b934',
  '0198c3f0-4d90-7e6f-b2c8-91f5ae04c7d1',
]

const accepted = (message: string) => ({
  job_id: JOB,
  status: 'pending',
  message,
  estimated_cost_credits: null,
  queue_position: 0,
})

/** The fields of operation manifests that the route declarations lack. Raise the version when a schema changes. */
const DESCRIBED: Readonly<Record<string, ManifestDetails>> = {
  'training.merge': {
    version: '1.1.0',
    examples: [
      {
        name: 'average of two models',
        description: 'Merges two versions of one base into a new version.',
        input: {
          name: 'support-merged',
          method: 'slerp',
          sources: [
            { type: 'model_version', version_id: FIRST },
            { type: 'model_version', version_id: SECOND },
          ],
        },
        output: { ...accepted('Merge queued'), job_type: 'merge' },
      },
      {
        name: 'adapter into its base',
        description: 'Folds the adapter of a run into a repository of the hub.',
        input: {
          name: 'support-full',
          method: 'adapter_merge',
          base: { type: 'hf', repo_id: 'organisation/base-model' },
          adapters: [{ type: 'job', job_id: JOB }],
        },
        output: { ...accepted('Merge queued'), job_type: 'merge' },
      },
    ],
  },
  'training.retrain_on': {
    version: '1.1.0',
    examples: [
      {
        name: 'retrain a version',
        description: 'Trains a version further on a new dataset.',
        input: {
          job_name: 'churn-november',
          model_config_id: 'tabular-classification',
          dataset_id: DATASET,
          base: { type: 'model_version', version_id: FIRST },
        },
        output: accepted('Training run queued'),
      },
      {
        name: 'continue a run',
        description: 'Trains the model of an earlier run further, for one epoch.',
        input: {
          job_name: 'support-second-pass',
          model_config_id: 'llm-qlora-finetune',
          dataset_id: DATASET,
          base: { type: 'job', job_id: JOB },
          parent_job_id: JOB,
          hyperparameters: { epochs: 1 },
        },
        output: accepted('Training run queued'),
      },
    ],
  },
}

/** Returns the operation tools, sorted by slug. They are the same for every account. */
export const operationTools = (): Tool[] =>
  OPERATION_ACTIONS.map((action) => new Tool(manifestOf(action))).toSorted((a, b) =>
    a.slug < b.slug ? -1 : 1,
  )

function manifestOf(action: OperationAction): ToolManifest {
  const { slug, displayName, description, inputSchema, outputSchema, latencyClass } = action
  const described = DESCRIBED[slug]
  if (!described) throw new Error(`the operation ${slug} has no examples`)
  return {
    name: slug,
    displayName,
    version: described.version,
    stability: 'stable',
    kind: 'operation',
    tags: ['training'],
    description,
    inputSchema: plainSchema(inputSchema),
    outputSchema: plainSchema(outputSchema),
    examples: described.examples,
    sideEffects: [
      'network',
      'storage',
      'mutating',
      'creates_job',
      'creates_model_version',
      'consumes_training_quota',
    ],
    costHint: 'training_quota',
    latencyClass,
    // A base may be a hub repository, which a node downloads.
    annotations: { readOnly: false, idempotent: false, destructive: false, openWorld: true },
    lineage: null,
    deprecation: null,
    links: { documentation: '/docs' },
  }
}

/** Returns a schema without `discriminator`, an OpenAPI keyword that JSON Schema validators may reject. */
const plainSchema = (schema: object): Record<string, unknown> =>
  JSON.parse(
    JSON.stringify(schema, (key, value: unknown) => (key === 'discriminator' ? undefined : value)),
  ) as Record<string, unknown>
