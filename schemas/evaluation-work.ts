import Type, { type Static } from 'typebox'
import { FitMethod, FittedMap, Metric } from './cohorts/evaluator.ts'
import { Vocabulary } from './common.ts'
import { StorageFormat } from './dataset.ts'

/** The steps of a structured run that nodes perform. */
export const EvaluationStep = Vocabulary('source', 'target', 'fit', 'judge')
export type EvaluationStep = Static<typeof EvaluationStep>

const Whole = Type.Integer({ minimum: 0 })
/** The model that a step calls. */
const Called = Type.Object({ model_key: Type.String(), dimensions: Whole })
const Upload = Type.Object({ url: Type.String(), headers: Type.Record(Type.String(), Type.String()) })

/**
 * Everything a node needs for one step of a structured run. URLs are valid for an hour and never enter a workflow's
 * history.
 */
export const EvaluationWork = Type.Object(
  {
    step: EvaluationStep,
    fit_count: Whole,
    test_count: Whole,
    seed: Whole,
    metric: Metric,
    method: FitMethod,
    threshold: Type.Number(),
    permutations: Whole,
    resamples: Whole,
    /** Only for steps that compute vectors. */
    model: Type.Optional(Called),
    dataset: Type.Optional(
      Type.Object({
        url: Type.String(),
        format: StorageFormat,
        filename: Type.String(),
        text_field: Type.String(),
      }),
    ),
    /** The vectors of both sides and, for the last step, the map. */
    source_url: Type.Optional(Type.String()),
    target_url: Type.Optional(Type.String()),
    adapter_url: Type.Optional(Type.String()),
    fit: Type.Optional(FittedMap),
    consumer: Type.Optional(
      Type.Object({
        model_key: Type.String(),
        task_type: Type.String(),
        /** The endpoint's example, into which the vector is inserted. */
        input: Type.Record(Type.String(), Type.Unknown()),
        input_path: Type.String(),
        answer_path: Type.String(),
      }),
    ),
    /** Where to upload the vectors or the map of this step. */
    upload: Type.Optional(Upload),
  },
  { $id: 'EvaluationWork' },
)
export type EvaluationWork = Static<typeof EvaluationWork>
