import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

const RuntimeDriver = Vocabulary('process', 'container')

/** How a model is run on a node (catalog/runtime-profiles). Placeholders of `command` are listed in node-runtime/servers/README.md. */
export const RuntimeProfile = Type.Object(
  {
    profile_id: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
    display_name: Type.String({ minLength: 1 }),
    description: Type.String({ minLength: 1 }),
    /** The library that runs the weights, as registry entries name it. */
    framework: Type.Optional(Type.String({ minLength: 1 })),
    driver: RuntimeDriver,
    /** Locked Python environment (a folder of node-runtime/environments/python) the command runs in; null when it needs none. */
    python_env: Nullable(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    env: Type.Record(Type.String(), Type.String()),
    /** Locked set of npm packages (a folder of node-runtime/environments/npm) that the command is given as `{packages}`. */
    npm_env: Type.Optional(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    /** What the container driver runs, by version or digest. */
    image: Type.Optional(Type.String({ minLength: 1 })),
    /** Arguments added for models whose config.json has this `model_type`. */
    model_options: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String({ minLength: 1 })))),
    /**
     * Arguments added, unless the model's type brings them, for models whose chat template knows the tag `<think>`: where the
     * template begins the trace itself, and where it leaves that to the model.
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
    /** How the server says that it can serve: by a line on its output, or by answering its health check. */
    ready: Type.Optional({ ...Vocabulary('line', 'health'), default: 'line' }),
    /** The smallest real request, where the example of a version need not be one. */
    warmup_input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    health_path: Type.String({ pattern: '^/' }),
    infer_path: Type.String({ pattern: '^/' }),
    /** The one name under which the server knows its model; unset where it answers under whatever name it is asked by. */
    served_model: Type.Optional(Type.String({ minLength: 1 })),
    task_types: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    requires_gpu: Type.Boolean(),
    /** Reservation until the peak of a loaded model has been measured. */
    memory_mb: Type.Integer({ minimum: 1 }),
    /** Added to the reservation for each MB of weights. */
    memory_per_weights_mb: Type.Optional(Type.Number({ minimum: 0 })),
    vram_mb: Type.Integer({ minimum: 0 }),
    /** For servers that take so much of a GPU however large the model is: reserved before the first load, filled in as `{vram_share}`. */
    vram_share: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    /** How many GPUs share the model in equal parts, filled in as `{tensor_parallel}`: each has to have the room of its part. */
    tensor_parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: 64, default: 1 })),
    /** Sizes of a container's `/tmp` and `/dev/shm`, on top of the memory of the model. */
    temporary_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    shared_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Of one inference, at most as many as the machine has cores; 0 takes half of the cores. */
    threads: Type.Integer({ minimum: 0 }),
    /** Requests one loaded model works on at a time; more wait at the node. */
    max_concurrency: Type.Integer({ minimum: 1 }),
    /** A load that makes no progress for so long is given up. */
    start_timeout_s: Type.Integer({ minimum: 1 }),
    stop_grace_s: Type.Number({ minimum: 0 }),
  },
  { $id: 'RuntimeProfile', additionalProperties: false },
)
export type RuntimeProfile = Static<typeof RuntimeProfile>
