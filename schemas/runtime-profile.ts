import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

const RuntimeDriver = Vocabulary('process', 'container')

/**
 * A runtime profile says how a node runs a model (catalog/runtime-profiles). node-runtime/servers/README.md lists the
 * placeholders of `command`.
 */
/** Where an engine says how many requests it runs and has waiting. */
const EngineCounts = Type.Object(
  {
    /** The path of its metrics in Prometheus' text format. */
    path: Type.String({ pattern: '^/' }),
    /** The names of the two gauges. */
    running: Type.String({ minLength: 1 }),
    waiting: Type.String({ minLength: 1 }),
  },
  { additionalProperties: false },
)
export type EngineCounts = Static<typeof EngineCounts>

export const RuntimeProfile = Type.Object(
  {
    profile_id: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
    display_name: Type.String({ minLength: 1 }),
    description: Type.String({ minLength: 1 }),
    /** The library that runs the weights, as registry entries name it. */
    framework: Type.Optional(Type.String({ minLength: 1 })),
    driver: RuntimeDriver,
    /**
     * The locked Python environment of the command (a folder of node-runtime/environments/python); null when it needs
     * none.
     */
    python_env: Nullable(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    env: Type.Record(Type.String(), Type.String()),
    /**
     * The locked set of npm packages (a folder of node-runtime/environments/npm) that fills `{packages}` in the
     * command.
     */
    npm_env: Type.Optional(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    /** The image of the container driver, by version or digest. */
    image: Type.Optional(Type.String({ minLength: 1 })),
    /** Arguments added for models whose config.json has this `model_type`. */
    model_options: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String({ minLength: 1 })))),
    /**
     * Arguments added for models whose chat template has the tag `<think>`, unless the arguments of the model's type
     * include them already: `begun` for templates that begin the trace themselves, `written` for templates that leave
     * that to the model.
     */
    trace_options: Type.Optional(
      Type.Object(
        {
          begun: Type.Array(Type.String({ minLength: 1 })),
          written: Type.Array(Type.String({ minLength: 1 })),
        },
        { additionalProperties: false },
      ),
    ),
    /**
     * A command that makes of a model's files what the server reads, once for each set of files. Its result
     * is a folder, `{out_dir}` in the command and `{converted_dir}` in that of the server (node-runtime/servers/README.md).
     */
    convert: Type.Optional(
      Type.Object(
        {
          /** Raised when the command makes something else of the same files. */
          version: Type.Integer({ minimum: 1 }),
          /** The locked Python environment of the command. */
          python_env: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
          command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
          /** Run in the environment of the profile over the result, before it is kept. */
          check: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
          /**
           * A model with all of these files needs no conversion. One that also has safetensors is compared with
           * them when it arrives, if the environment is installed already.
           */
          unless: Type.Array(Type.String({ minLength: 1 })),
          /** The memory of the command, as `memory_mb` and `memory_per_weights_mb` of the server. */
          memory_mb: Type.Integer({ minimum: 1 }),
          memory_per_weights_mb: Type.Number({ minimum: 0 }),
        },
        { additionalProperties: false },
      ),
    ),
    /** The signal that the server is ready: a line on its output, or a successful health check. */
    ready: Type.Optional({ ...Vocabulary('line', 'health'), default: 'line' }),
    /**
     * The smallest real request. It replaces the version's example, which need not be a request for every task type.
     */
    warmup_input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    health_path: Type.String({ pattern: '^/' }),
    infer_path: Type.String({ pattern: '^/' }),
    /** The only name under which the server knows its model; unset when it accepts any name. */
    served_model: Type.Optional(Type.String({ minLength: 1 })),
    task_types: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    requires_gpu: Type.Boolean(),
    /** The reservation in MB until the peak of a loaded model has been observed. */
    memory_mb: Type.Integer({ minimum: 1 }),
    /** MB added to the reservation for each MB of weights. */
    memory_per_weights_mb: Type.Optional(Type.Number({ minimum: 0 })),
    vram_mb: Type.Integer({ minimum: 0 }),
    /**
     * For servers that claim a fixed share of a GPU whatever the model's size: the share is reserved before the first
     * load and fills `{vram_share}`.
     */
    vram_share: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    /**
     * The number of GPUs that hold the model in equal parts, which fills `{tensor_parallel}`. Each GPU needs room for
     * its part.
     */
    tensor_parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: 64, default: 1 })),
    /** Sizes of a container's `/tmp` and `/dev/shm`, in addition to the memory of the model. */
    temporary_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    shared_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    /** The threads of one inference, at most the number of cores; 0 means half of the cores. */
    threads: Type.Integer({ minimum: 0 }),
    /** The number of requests that one loaded model serves at a time; further requests queue at the gateways. */
    max_concurrency: Type.Integer({ minimum: 1 }),
    /** With it, the number of requests follows what the engine runs, up to `max_concurrency`. */
    engine_counts: Type.Optional(EngineCounts),
    /** A load that makes no progress for this long is aborted. */
    start_timeout_s: Type.Integer({ minimum: 1 }),
    stop_grace_s: Type.Number({ minimum: 0 }),
  },
  { $id: 'RuntimeProfile', additionalProperties: false },
)
export type RuntimeProfile = Static<typeof RuntimeProfile>
