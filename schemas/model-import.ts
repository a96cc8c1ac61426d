import Type, { type Static } from 'typebox'
import { Uuid, Vocabulary } from './common.ts'
import { EndpointName } from './endpoint.ts'
import { Formed, Sha256 } from './forms.ts'

const Path = Formed(
  '^[A-Za-z0-9_@=+(.-][A-Za-z0-9_.@=+ ()/-]*$',
  'must be a path of plain characters, relative to the folder of the model',
  { minLength: 1, maxLength: 500, description: 'Relative to the model’s folder' },
)

const TaskTypeName = Type.String({ minLength: 1, maxLength: 100 })
const ProfileName = Type.String({ minLength: 1, maxLength: 100 })

const most = { minItems: 1, maxItems: 1_000 }

/** Step one: the response has an upload URL for each file of the model. */
export const StartModelImport = Type.Object(
  {
    account_id: Uuid,
    paths: Type.Array(Path, most),
    /** If both are given, step one rejects whatever step two would reject, before anything is uploaded. */
    task_type: Type.Optional(TaskTypeName),
    runtime_profile: Type.Optional(ProfileName),
  },
  { additionalProperties: false },
)
export type StartModelImport = Static<typeof StartModelImport>

export const ModelImportStarted = Type.Object({
  version_id: Uuid,
  uploads: Type.Array(Type.Object({ path: Path, url: Type.String(), content_type: Type.String() })),
})
export type ModelImportStarted = Static<typeof ModelImportStarted>

/** Step two: the uploaded files become a version with an endpoint. */
export const CompleteModelImport = Type.Object(
  {
    account_id: Uuid,
    name: EndpointName,
    task_type: TaskTypeName,
    runtime_profile: ProfileName,
    visibility: Type.Optional({ ...Vocabulary('private', 'account'), default: 'account' }),
    files: Type.Array(
      Type.Object(
        {
          path: Path,
          size_bytes: Type.Integer({ minimum: 0 }),
          sha256: Sha256,
        },
        { additionalProperties: false },
      ),
      most,
    ),
  },
  { additionalProperties: false },
)
export type CompleteModelImport = Static<typeof CompleteModelImport>

export const ImportedModel = Type.Object({
  endpoint_id: Uuid,
  version_id: Uuid,
  model_key: Type.String(),
  name: Type.String(),
  runtime_profile: Type.String(),
})
export type ImportedModel = Static<typeof ImportedModel>
