import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from '../common.ts'

const RuntimeDriver = Vocabulary('process', 'container')

/**
 * A runtime profile says how a node runs a model (catalog/runtime-profiles). node-runtime/servers/README.md lists the
 * placeholders of `command`.
 */
/** How to read an engine's counts of running and waiting requests. */
const EngineCounts = Type.Object(
  {
    /** The path of its metrics in the Prometheus text format. */
    path: Type.String({ pattern: '^/' }),
    /** The names of the two gauges. */
    running: Type.String({ minLength: 1 }),
    waiting: Type.String({ minLength: 1 }),
  },
  { additionalProperties: false },
)
export type EngineCounts = Static<typeof EngineCounts>

/**
 * The routes of an engine that can free its GPU memory while it keeps its weights in RAM. Only the node calls them.
 */
const SleepRoutes = Type.Object(
  {
    /** Called with POST: the engine moves its weights to RAM, frees its GPU memory and responds. */
    sleep: Type.String({ pattern: '^/' }),
    /** Called with POST: the engine takes its GPU memory again and responds. */
    wake: Type.String({ pattern: '^/' }),
    /** Called with GET; returns `{"is_sleeping": boolean}`. */
    is_sleeping: Type.String({ pattern: '^/' }),
    /** MB of RAM for each MB of weights. */
    ram_per_weights_mb: Type.Number({ exclusiveMinimum: 0 }),
  },
  { additionalProperties: false },
)
export type SleepRoutes = Static<typeof SleepRoutes>

export const RuntimeProfile = Type.Object(
  {
    profile_id: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
    display_name: Type.String({ minLength: 1 }),
    description: Type.String({ minLength: 1 }),
    /** The library that runs the weights, by the name used in registry entries. */
    framework: Type.Optional(Type.String({ minLength: 1 })),
    driver: RuntimeDriver,
    /**
     * The locked Python environment of the command (a folder in node-runtime/environments/python); null when it doesn't
     * need one.
     */
    python_env: Nullable(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    env: Type.Record(Type.String(), Type.String()),
    /**
     * The locked set of npm packages (a folder in node-runtime/environments/npm) that fills `{packages}` in the
     * command.
     */
    npm_env: Type.Optional(Type.String({ pattern: '^[a-z][a-z0-9-]*$' })),
    /** The image for the container driver, by version or digest. */
    image: Type.Optional(Type.String({ minLength: 1 })),
    /** Arguments added for models whose config.json has this `model_type`. */
    model_options: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String({ minLength: 1 })))),
    /**
     * Arguments added for models whose chat template has the tag `<think>`, unless the arguments for the model's type
     * already include them. `begun` is for templates that open the reasoning block themselves, `written` for templates
     * that leave that to the model.
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
    /** Arguments for the fields of an endpoint's `serving`, with `{value}` in place of the value. */
    serving_options: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String({ minLength: 1 })))),
    /**
     * The arguments that endpoints may set in `serving.engine_args`, without leading dashes, and their values: `integer`
     * from 0, `positive` from 1.
     */
    engine_args: Type.Optional(
      Type.Record(
        Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
        Type.Union([Vocabulary('integer', 'positive', 'boolean'), Type.Array(Type.String({ minLength: 1 }))]),
      ),
    ),
    /**
     * A command that converts a model's files into what the server reads, once for each set of files. The result is a
     * folder: `{out_dir}` in this command and `{converted_dir}` in the server's command
     * (node-runtime/servers/README.md).
     */
    convert: Type.Optional(
      Type.Object(
        {
          /** Increment when the command produces a different result from the same files. */
          version: Type.Integer({ minimum: 1 }),
          /** The locked Python environment of the command. */
          python_env: Type.String({ pattern: '^[a-z][a-z0-9-]*$' }),
          command: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
          /** Runs in the profile's environment to check the result before it is stored. */
          check: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
          /**
           * A model with all of these files needs no conversion. If it also has safetensors, the two are compared when
           * it arrives, provided that the environment is already installed.
           */
          unless: Type.Array(Type.String({ minLength: 1 })),
          /** The command's memory, like the server's `memory_mb` and `memory_per_weights_mb`. */
          memory_mb: Type.Integer({ minimum: 1 }),
          memory_per_weights_mb: Type.Number({ minimum: 0 }),
        },
        { additionalProperties: false },
      ),
    ),
    /** How the server signals that it is ready: a line of output, or a successful health check. */
    ready: Type.Optional({ ...Vocabulary('line', 'health'), default: 'line' }),
    /**
     * The smallest realistic request. It replaces the version's example, which isn't a valid request for every task
     * type.
     */
    warmup_input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    health_path: Type.String({ pattern: '^/' }),
    infer_path: Type.String({ pattern: '^/' }),
    /** The only name under which the server knows its model; unset when it accepts any name. */
    served_model: Type.Optional(Type.String({ minLength: 1 })),
    task_types: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    /** The kind of model that the profile serves. On each node, the best profile of a kind that can run serves it. */
    model_kind: Type.Optional(Type.String({ pattern: '^[a-z]+/[a-z]+$' })),
    /** A node prefers the profile of a kind with the highest number. */
    preference: Type.Optional(Type.Integer({ minimum: 0, maximum: 100, default: 0 })),
    /**
     * How the server serves adapters: it has the routes `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` of vLLM.
     * `options` and `env` are added for a model with adapters. Unset if it serves none.
     */
    adapters: Type.Optional(
      Type.Object(
        {
          options: Type.Array(Type.String({ minLength: 1 })),
          env: Type.Record(Type.String(), Type.String()),
          /** The highest rank of an adapter. */
          max_rank: Type.Integer({ minimum: 1 }),
          /** MB added to the reservation for each MB of an adapter; unset if the server reserves them at its start. */
          memory_per_weights_mb: Type.Optional(Type.Number({ minimum: 0 })),
        },
        { additionalProperties: false },
      ),
    ),
    /** The values of `architectures` in config.json that the engine implements; unset if it accepts any. */
    architectures: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
    requires_gpu: Type.Boolean(),
    /** A program in PATH that the machine needs. */
    requires_program: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9._-]+$' })),
    /** True if the server compiles kernels, so that the machine needs a C compiler. */
    requires_compiler: Type.Optional(Type.Boolean({ default: false })),
    /** The reservation in MB until a loaded model's peak has been measured. */
    memory_mb: Type.Integer({ minimum: 1 }),
    /** MB added to the reservation for each MB of weights. */
    memory_per_weights_mb: Type.Optional(Type.Number({ minimum: 0 })),
    vram_mb: Type.Integer({ minimum: 0 }),
    /** MB of GPU memory for each MB of weights; `memory_per_weights_mb` if unset. */
    vram_per_weights_mb: Type.Optional(Type.Number({ minimum: 0 })),
    /**
     * For servers that claim their GPU memory at start: the largest share of a GPU that one may claim. The share that the
     * node reserved for the model fills `{vram_share}`.
     */
    vram_share: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    /**
     * True if the server fits its context into the memory that the node reserves in addition to the weights, which fills
     * `{cache_mb}`. The node computes it from the header of the model's GGUF file.
     */
    fits_context: Type.Optional(Type.Boolean({ default: false })),
    /** The GPU memory for the KV cache of a server with `vram_share`, as a base plus MB for each MB of weights. */
    kv_cache: Type.Optional(
      Type.Object(
        { mb: Type.Integer({ minimum: 0 }), per_weights_mb: Type.Number({ minimum: 0 }) },
        { additionalProperties: false },
      ),
    ),
    /**
     * The number of GPUs that hold the model in equal parts; fills `{tensor_parallel}`. Each GPU needs memory for its
     * part.
     */
    tensor_parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: 64, default: 1 })),
    /** The sizes of a container's `/tmp` and `/dev/shm`, in addition to the model's memory. */
    temporary_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    shared_mb: Type.Optional(Type.Integer({ minimum: 1 })),
    /** The number of threads per inference, at most the number of cores; 0 means half of the cores. */
    threads: Type.Integer({ minimum: 0 }),
    /** How many requests one loaded model serves at a time; further requests queue in the gateways. */
    max_concurrency: Type.Integer({ minimum: 1 }),
    /** If set, the concurrency follows the number of requests that the engine runs, up to `max_concurrency`. */
    engine_counts: Type.Optional(EngineCounts),
    /** Set if the server can sleep while other models use its GPU memory. */
    sleep: Type.Optional(SleepRoutes),
    /** A load that makes no progress for this long is aborted. */
    start_timeout_s: Type.Integer({ minimum: 1 }),
    stop_grace_s: Type.Number({ minimum: 0 }),
  },
  { $id: 'RuntimeProfile', additionalProperties: false },
)
export type RuntimeProfile = Static<typeof RuntimeProfile>
