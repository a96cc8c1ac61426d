import type { MeasuredLatencyClass, ToolManifest, ToolStability } from '../../schemas/tool.ts'
import { MAX_DESCRIPTION } from '../../schemas/tool.ts'
import { kindOf } from '../actions/kind.ts'
import { microToUsd } from '../money.ts'
import { examplesOf } from './examples.ts'
import { categoryOf, costHintOf, sideEffectsOf, unmeasuredLatencyClass } from './facts.ts'
import { stabilityOf } from './levels.ts'

type JsonObject = Record<string, unknown>
type Example = ToolManifest['examples'][number]

/** Everything known about an endpoint as a tool. */
export interface ToolSource {
  id: string
  account_id: string
  name: string
  display_name: string
  description: string
  source: 'catalog' | 'trained'
  task_type: string
  base_model: string | null
  model_category: string | null
  hub_revision: string | null
  status: string
  input_schema: JsonObject
  output_schema: JsonObject
  example_input: JsonObject
  example_output: JsonObject
  examples: readonly Example[]
  tags: readonly string[]
  price_micro: number
  proven: ToolStability
  latency_class: MeasuredLatencyClass | null
  replaced_by: string | null
  deprecated_at: Date | null
  updated_at: Date
  lifecycle_status: string
  model_config_id: string
  job_id: string | null
  hyperparameters: JsonObject | null
  dataset_name: string | null
  is_dataset_public: boolean | null
}

/**
 * The version of the rules in this file and in the code it calls. Changing the rules creates new versions of manifests.
 */
export const MANIFEST_FORMAT = 1

/** The manifest of a tool before its version is known. */
export type UnversionedManifest = Omit<ToolManifest, 'version'>

interface View {
  /** The owner sees the whole lineage; others see what its owner has made public. */
  isOwner: boolean
  /** US dollars per credit. */
  creditUsd: number
  /** The address of the model hub. */
  hub: string | undefined
}

/** Describes an endpoint as a tool. */
export function describeTool(source: ToolSource, { isOwner, creditUsd, hub }: View): UnversionedManifest {
  const kind = kindOf(source)
  const usd = microToUsd(source.price_micro, creditUsd)
  const examples = examplesOf(source)
  const category = categoryOf(source.task_type, source.model_category)
  const sideEffects = sideEffectsOf({ kind, usd, inputSchema: source.input_schema })
  const hasOutput = Object.keys(source.output_schema).length > 0
  return {
    name: source.name,
    displayName: source.display_name || source.name,
    stability: stabilityOf({ ...source, examples: examples.length }),
    kind,
    ...(category && { category }),
    tags: [...source.tags],
    ...describe(source),
    inputSchema: source.input_schema,
    ...(hasOutput && { outputSchema: source.output_schema }),
    examples,
    sideEffects,
    costHint: costHintOf(usd),
    latencyClass: source.latency_class ?? unmeasuredLatencyClass(kind, source.task_type),
    annotations: {
      readOnly: true,
      idempotent: usd === 0,
      destructive: false,
      openWorld: sideEffects.includes('network'),
    },
    lineage: kind === 'trained_model' ? lineageOf(source, isOwner) : null,
    deprecation: deprecationOf(source),
    links: linksOf(source, hub),
  }
}

/** Returns the stability of an endpoint as a tool. */
export const toolStability = (source: ToolSource): ToolStability =>
  stabilityOf({ ...source, examples: examplesOf(source).length })

function describe({ description, task_type }: ToolSource): { description: string; longDescription?: string } {
  const text = description.trim()
  if (text === '')
    return {
      description: `An endpoint for ${task_type}; its owner has not described it.`.slice(0, MAX_DESCRIPTION),
    }
  if (text.length <= MAX_DESCRIPTION) return { description: text }
  return { description: shorten(text), longDescription: text }
}

const ELLIPSIS = '...'

/** Truncates text at the end of a word. */
function shorten(text: string): string {
  const cut = text.slice(0, MAX_DESCRIPTION - ELLIPSIS.length)
  const space = cut.lastIndexOf(' ')
  // Truncating within a surrogate pair would leave half a character.
  const whole = space > MAX_DESCRIPTION / 2 ? cut.slice(0, space) : cut.replace(/[\uD800-\uDBFF]$/, '')
  return whole.trimEnd() + ELLIPSIS
}

const COLUMN = /_column$/
/** Manifests rename the column that a run predicts, whether the run named it or the trainer chose it. */
const LABEL = { hyperparameter: 'target_column', column: 'label_column' } as const

/** Returns the columns named in a run's hyperparameters. */
function columnsOf({ hyperparameters }: ToolSource): Record<string, string> {
  const columns: Record<string, string> = {}
  for (const [name, value] of Object.entries(hyperparameters ?? {})) {
    if (!COLUMN.test(name) || typeof value !== 'string' || value === '') continue
    columns[name === LABEL.hyperparameter ? LABEL.column : name] = value
  }
  return columns
}

function lineageOf(source: ToolSource, isOwner: boolean): ToolManifest['lineage'] {
  const showsData = isOwner || source.is_dataset_public === true
  return {
    jobId: isOwner ? source.job_id : null,
    baseModel: source.base_model,
    dataset: showsData ? source.dataset_name : null,
    datasetDomain:
      showsData && source.dataset_name !== null
        ? (categoryOf(source.task_type, source.model_category) ?? null)
        : null,
    architecture: source.model_config_id,
    columns: showsData ? columnsOf(source) : {},
  }
}

function deprecationOf(source: ToolSource): ToolManifest['deprecation'] {
  if (source.status !== 'deprecated') return null
  const { deprecated_at, updated_at, replaced_by } = source
  return { deprecatedAt: (deprecated_at ?? updated_at).toISOString(), replacedBy: replaced_by }
}

function linksOf(
  { name, base_model, hub_revision }: ToolSource,
  hub: string | undefined,
): ToolManifest['links'] {
  const documentation = `/api/builder/v1/endpoints/${name}`
  if (!hub || base_model === null || hub_revision === null) return { documentation }
  return { documentation, source: `${hub}/${base_model}/tree/${hub_revision}` }
}
