import Type, { type Static } from 'typebox'
import { Vocabulary } from './common.ts'

/** The lifecycle states of a model config or model. */
export const LifecycleStatus = Vocabulary('candidate', 'ready', 'preferred', 'disabled')

/** The model categories that the catalog and the endpoint list filter by. */
const ModelCategory = Vocabulary(
  'ml_classical',
  'time_series',
  'nlp',
  'generative',
  'deep_learning',
  'computer_vision',
)

const HyperparameterType = Vocabulary('string', 'integer', 'number', 'boolean', 'array')

/** One hyperparameter as JSON Schema. Every hyperparameter has a default, so a run may leave all of them out. */
const Hyperparameter = Type.Object(
  {
    type: Type.Union([HyperparameterType, Type.Array(HyperparameterType, { minItems: 2 })]),
    title: Type.Optional(Type.String()),
    description: Type.String({ minLength: 1 }),
    default: Type.Unknown(),
    minimum: Type.Optional(Type.Number()),
    maximum: Type.Optional(Type.Number()),
    exclusiveMaximum: Type.Optional(Type.Number()),
    maxLength: Type.Optional(Type.Integer()),
    maxItems: Type.Optional(Type.Integer()),
    enum: Type.Optional(Type.Array(Type.Unknown())),
    items: Type.Optional(Type.Object({ type: Type.String() })),
  },
  { additionalProperties: false },
)

/** The JSON Schema object of a config's hyperparameters, as `GET .../schema` returns it. */
export const HyperparameterSchema = Type.Object(
  { type: Type.Literal('object'), properties: Type.Record(Type.String(), Hyperparameter) },
  { additionalProperties: false },
)
export type HyperparameterSchema = Static<typeof HyperparameterSchema>

/** How a trainer chooses the column that it predicts when the run has no `target_column`. */
export const TargetRule = Type.Object(
  {
    /** Column names that the trainer searches for, in this order. */
    usual: Type.Array(Type.String({ minLength: 1 })),
    /**
     * The column that the trainer uses when it finds none of those names. When absent, the choice depends on the
     * values.
     */
    otherwise: Type.Optional(Vocabulary('last', 'last_number')),
    holds: Vocabulary('number', 'class'),
  },
  { additionalProperties: false },
)
export type TargetRule = Static<typeof TargetRule>

/** A trainable catalog entry, as stored in its file in catalog/model-configs. */
export const ModelConfigFile = Type.Object(
  {
    model_id: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
    display_name: Type.String({ minLength: 1 }),
    framework: Type.String({ minLength: 1 }),
    description: Type.String({ minLength: 1 }),
    category: ModelCategory,
    task_type: Type.String({ minLength: 1 }),
    requires_gpu: Type.Boolean(),
    vram_required_mb: Type.Integer({ minimum: 0 }),
    is_active: Type.Boolean(),
    lifecycle_status: LifecycleStatus,
    dataset_formats: Type.Array(Vocabulary('csv', 'jsonl', 'parquet', 'hf_dataset'), { minItems: 1 }),
    runtime_profile: Type.String({ minLength: 1 }),
    trainer: Type.Object(
      {
        python_env: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
        /** A Python module with a `train` function (node-runtime/trainers). */
        module: Type.String({ pattern: '^[a-z_][a-z0-9_.]*$' }),
        /** The expected memory of a run: a base, and a multiple of the dataset size. */
        memory: Type.Object(
          { base_mb: Type.Integer({ minimum: 1 }), per_dataset_mb: Type.Number({ minimum: 0 }) },
          { additionalProperties: false },
        ),
        /** The unit of a run's progress and of its checkpoints; epochs by default. */
        progress_unit: Type.Optional(Vocabulary('epoch', 'step')),
        /**
         * Language models require a base model; other configs may allow one. When absent, a run always starts from
         * scratch.
         */
        base: Type.Optional(Vocabulary('required', 'optional')),
        /** The task types of the models that a run may start from; by default, models of the same config. */
        base_task_types: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
      },
      { additionalProperties: false },
    ),
    /**
     * Columns that a dataset must have, for each value of one hyperparameter: one column from each group. `{name}` is
     * replaced with the value of the hyperparameter `name`.
     */
    dataset_rules: Type.Optional(
      Type.Object(
        {
          parameter: Type.String({ minLength: 1 }),
          columns: Type.Record(
            Type.String(),
            Type.Array(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
          ),
        },
        { additionalProperties: false },
      ),
    ),
    target: Type.Optional(TargetRule),
    /** Hyperparameter values that need a CUDA device. */
    cuda_only: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String()))),
    hyperparameters: HyperparameterSchema,
    /** The hyperparameters that a run may set to `auto` instead of their default, as in the contract's table (4.3). */
    auto: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
    /** Alternative spellings of hyperparameters; each maps to the hyperparameter's name. */
    aliases: Type.Record(Type.String(), Type.String()),
  },
  { $id: 'ModelConfigFile', additionalProperties: false },
)
export type ModelConfigFile = Static<typeof ModelConfigFile>

/** An entry in the list of the catalog. */
export const ModelConfig = Type.Object(
  {
    model_id: Type.String(),
    display_name: Type.String(),
    framework: Type.String(),
    description: Type.String(),
    category: ModelCategory,
    task_type: Type.String(),
    requires_gpu: Type.Boolean(),
    vram_required_mb: Type.Integer(),
    is_active: Type.Boolean(),
    lifecycle_status: LifecycleStatus,
  },
  { $id: 'ModelConfig' },
)
export type ModelConfig = Static<typeof ModelConfig>

const UserConfigurableParam = Type.Object({
  name: Type.String(),
  type: Type.String(),
  default: Type.Unknown(),
  description: Type.String(),
})

/** A catalog entry with all fields. */
export const ModelConfigDetail = Type.Object(
  { ...ModelConfig.properties, user_configurable_params: Type.Array(UserConfigurableParam) },
  { $id: 'ModelConfigDetail' },
)
export type ModelConfigDetail = Static<typeof ModelConfigDetail>

/** The response to `GET /training/model-configs/{model_id}/schema`. */
export const ModelConfigSchema = Type.Object(
  {
    model_id: Type.String(),
    schema: HyperparameterSchema,
    aliases: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Alternative spellings of hyperparameters that runs accept, each with its actual name',
      }),
    ),
  },
  { $id: 'ModelConfigSchema' },
)
export type ModelConfigSchema = Static<typeof ModelConfigSchema>
