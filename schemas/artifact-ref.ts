import Type, { type Static, type TProperties } from 'typebox'
import { Uuid } from './common.ts'
import { Formed } from './forms.ts'

const closed = (properties: TProperties) => Type.Object(properties, { additionalProperties: false })

/**
 * The model that a retrain or a merge starts from: a hub repository, a version, a job's result, or files in the object
 * store.
 */
export const ArtifactRef = Type.Unsafe<
  | { type: 'hf'; repo_id: string; revision?: string }
  | { type: 'model_version'; version_id: string }
  | { type: 'job'; job_id: string }
  | { type: 'storage'; uri: string }
>({
  type: 'object',
  required: ['type'],
  discriminator: { propertyName: 'type' },
  oneOf: [
    closed({
      type: Type.Literal('hf'),
      repo_id: Type.String({ minLength: 1, maxLength: 200 }),
      revision: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    }),
    closed({ type: Type.Literal('model_version'), version_id: Uuid }),
    closed({ type: Type.Literal('job'), job_id: Uuid }),
    closed({
      type: Type.Literal('storage'),
      uri: Formed('^s3://', 'must be an address of the form s3://bucket/key', { maxLength: 2048 }),
    }),
  ],
})
export type ArtifactRef = Static<typeof ArtifactRef>
