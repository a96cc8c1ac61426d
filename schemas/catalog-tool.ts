import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'
import { Formed } from './forms.ts'

const JsonObject = Type.Record(Type.String(), Type.Unknown())
const Field = Formed('^[A-Za-z_][A-Za-z0-9_]{0,62}$', 'must be a field name: letters, digits and _')

/** The limits of one run of a tool. */
const ToolLimits = Type.Object(
  {
    time_s: Type.Number({ minimum: 0.1, maximum: 3_600 }),
    memory_mb: Type.Integer({ minimum: 16, maximum: 65_536 }),
    cpus: Type.Integer({ minimum: 1, maximum: 64 }),
    processes: Type.Integer({ minimum: 1, maximum: 4_096 }),
    /** The size limit for all files that it writes, which are held in memory. */
    temporary_mb: Type.Integer({ minimum: 1, maximum: 16_384 }),
    /** The size limit for the result, or for each output stream. */
    output_kb: Type.Integer({ minimum: 1, maximum: 16_384 }),
  },
  { additionalProperties: false },
)
export type ToolLimits = Static<typeof ToolLimits>

/**
 * A tool of the catalog (catalog/tools/SLUG/tool.json) or of an operator. A tool is a program that a node starts in a
 * sandbox for one request and stops when the request ends. docs/tools.md explains tools to operators.
 */
export const CatalogTool = Type.Object(
  {
    slug: Formed(
      '^[a-z][a-z0-9_-]{0,62}$',
      'must start with a lower-case letter and contain only lower-case letters, digits, - and _, up to 63 characters',
    ),
    display_name: Type.String({ minLength: 1, maxLength: 200 }),
    description: Type.String({ minLength: 1, maxLength: 2_000 }),
    tags: Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { minItems: 1, maxItems: 50 }),
    input_schema: JsonObject,
    output_schema: JsonObject,
    examples: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1, maxLength: 100 }),
          description: Type.String({ maxLength: 1_000 }),
          input: JsonObject,
          output: JsonObject,
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 9 },
    ),
    /**
     * Program and arguments. `{node}` and `{python}` are the interpreters, `{tool}` is the tool's folder, and `{input}`
     * the folder with the request's files.
     */
    command: Type.Array(Type.String({ minLength: 1, maxLength: 4_096 }), { minItems: 1, maxItems: 64 }),
    env: Type.Optional(Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String())),
    /** The locked Python environment for `{python}`; null for the node's plain interpreter. */
    python_env: Type.Optional(
      Nullable(
        Formed(
          '^[a-z][a-z0-9-]*$',
          'must be the name of a locked environment, in lower-case letters, digits and -',
        ),
      ),
    ),
    /** The image of an operator's tool, with its digest. */
    image: Type.Optional(
      Formed(
        '^(?:[^@\\s]+@)?sha256:[0-9a-f]{64}$',
        'must be an image with its digest: name@sha256:... or sha256:...',
      ),
    ),
    /**
     * `json`: the program prints its result as one JSON object. `streams`: the result is its output and exit status.
     */
    output: Vocabulary('json', 'streams'),
    /** `egress`: public HTTPS addresses through the node's proxy. */
    network: Vocabulary('none', 'egress'),
    /** Input fields that are passed as files with these names. */
    texts: Type.Optional(
      Type.Record(
        Field,
        Formed('^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$', 'must be a file name of letters, digits, _, . and -'),
      ),
    ),
    /** Input fields that contain a file's URL. The node fetches the file and passes it under the field's name. */
    files: Type.Optional(
      Type.Record(
        Field,
        Type.Object(
          { max_mb: Type.Integer({ minimum: 1, maximum: 4_096 }) },
          { additionalProperties: false },
        ),
      ),
    ),
    /** The input field that overrides `time_s`. */
    time_field: Type.Optional(Field),
    limits: ToolLimits,
  },
  { $id: 'CatalogTool', additionalProperties: false },
)
export type CatalogTool = Static<typeof CatalogTool>
