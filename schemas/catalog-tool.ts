import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'
import { Formed } from './forms.ts'

const JsonObject = Type.Record(Type.String(), Type.Unknown())
const Field = Formed('^[A-Za-z_][A-Za-z0-9_]{0,62}$', 'must be the name of a field: letters, digits and _')

/** The limits of one run of a tool. */
const ToolLimits = Type.Object(
  {
    time_s: Type.Number({ minimum: 0.1, maximum: 3_600 }),
    memory_mb: Type.Integer({ minimum: 16, maximum: 65_536 }),
    cpus: Type.Integer({ minimum: 1, maximum: 64 }),
    processes: Type.Integer({ minimum: 1, maximum: 4_096 }),
    /** All files that it writes; they are in memory. */
    temporary_mb: Type.Integer({ minimum: 1, maximum: 16_384 }),
    /** The longest result, or the longest text of each output stream. */
    output_kb: Type.Integer({ minimum: 1, maximum: 16_384 }),
  },
  { additionalProperties: false },
)
export type ToolLimits = Static<typeof ToolLimits>

/**
 * A tool of the catalog (catalog/tools/SLUG/tool.json), or of an operator: a program that is started for one request,
 * confined, and ended with it. docs/tools.md explains it to operators.
 */
export const CatalogTool = Type.Object(
  {
    slug: Formed(
      '^[a-z][a-z0-9_-]{0,62}$',
      'must be lower-case letters, digits, - and _, with a letter first and at most 63 characters',
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
     * Program and arguments. `{node}` and `{python}` are the interpreters, `{tool}` the folder of the tool, and
     * `{input}` the folder with the files of the request.
     */
    command: Type.Array(Type.String({ minLength: 1, maxLength: 4_096 }), { minItems: 1, maxItems: 64 }),
    env: Type.Optional(Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String())),
    /** The locked Python environment of `{python}`; null for the plain interpreter of the node. */
    python_env: Type.Optional(
      Nullable(Formed('^[a-z][a-z0-9-]*$', 'must be the name of a locked environment')),
    ),
    /** The image of an operator's tool, by digest. */
    image: Type.Optional(
      Formed(
        '^(?:[^@\\s]+@)?sha256:[0-9a-f]{64}$',
        'must name an image by digest: name@sha256:... or sha256:...',
      ),
    ),
    /** `json`: the program prints one JSON object, its result. `streams`: what it prints, and its exit status. */
    output: Vocabulary('json', 'streams'),
    /** `egress`: public HTTPS addresses through the node's proxy. */
    network: Vocabulary('none', 'egress'),
    /** Fields of the input that are given as files of these names. */
    texts: Type.Optional(
      Type.Record(
        Field,
        Formed('^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$', 'must be a file name of letters, digits, _, . and -'),
      ),
    ),
    /** Fields of the input with the address of a file, which the node fetches; it is given as a file of the field's name. */
    files: Type.Optional(
      Type.Record(
        Field,
        Type.Object(
          { max_mb: Type.Integer({ minimum: 1, maximum: 4_096 }) },
          { additionalProperties: false },
        ),
      ),
    ),
    /** The field of the input that replaces `time_s`. */
    time_field: Type.Optional(Field),
    limits: ToolLimits,
  },
  { $id: 'CatalogTool', additionalProperties: false },
)
export type CatalogTool = Static<typeof CatalogTool>
