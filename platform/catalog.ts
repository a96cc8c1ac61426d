import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { TSchema } from 'typebox'
import { formatFault, short } from '../domain/format-faults.ts'
import { asker } from '../domain/nearest-name.ts'
import {
  ModelConfigFile,
  type HyperparameterSchema,
  type ModelConfig,
  type ModelConfigDetail,
} from '../schemas/model-config.ts'
import { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'
import { badFile, checkedFile, firstFault } from './catalog-files.ts'
import { loadTools, type ToolFolder } from './catalog-tools.ts'

/** A validation error for one value; its JSON pointer is relative to `hyperparameters`. */
interface HyperparameterIssue {
  path: string
  message: string
}

/** A run's hyperparameters after aliases and defaults are applied, with notes for its owner. */
interface ResolvedHyperparameters {
  values: Record<string, unknown>
  /** Unknown keys, which are ignored and noted in the run's log. */
  warnings: string[]
  /** Known keys with invalid values; the request is rejected. */
  issues: HyperparameterIssue[]
}

/** A config of the catalog, ready for use. */
export interface CatalogModel {
  config: ModelConfigFile
  profile: RuntimeProfile
  listEntry: ModelConfig
  detail: ModelConfigDetail
  /** The schema of the hyperparameters in responses. */
  schema: HyperparameterSchema
  resolveHyperparameters(given: Record<string, unknown>): ResolvedHyperparameters
  /**
   * Returns the memory that the trainer is expected to use, given the size of the dataset in memory or, if that is
   * unknown, as a file.
   */
  estimateMemoryMb(datasetBytes: number): number
  /** Returns the memory that the decoded data alone needs. */
  leastMemoryMb(decodedBytes: number): number
}

/** Everything in catalog/, read once at start. */
export interface Catalog {
  models: readonly CatalogModel[]
  profiles: readonly RuntimeProfile[]
  tools: readonly ToolFolder[]
  model(modelId: string): CatalogModel | undefined
  profile(profileId: string): RuntimeProfile | undefined
  /** Returns the config that fine-tunes models of a task type; the first if there are several. */
  tunerOf(taskType: string): CatalogModel | undefined
}

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..')
const ajv = new Ajv2020({ allErrors: true, strict: false, coerceTypes: false })

/** Reads and validates the catalog. An invalid file throws an error that names the file and the location in it. */
export function loadCatalog(directory = join(ROOT, 'catalog')): Catalog {
  const profiles = readAll<RuntimeProfile>(join(directory, 'runtime-profiles'), RuntimeProfile, 'profile_id')
  const profileById = new Map(profiles.map(({ value }) => [value.profile_id, value]))

  const models = readAll<ModelConfigFile>(join(directory, 'model-configs'), ModelConfigFile, 'model_id').map(
    ({ file, value }) => {
      const profile = profileById.get(value.runtime_profile)
      if (!profile)
        throw badFile(file, '/runtime_profile', `names an unknown runtime profile: ${value.runtime_profile}`)
      return catalogModel(file, value, profile)
    },
  )
  const modelById = new Map(models.map((model) => [model.config.model_id, model]))

  return {
    models,
    profiles: profiles.map(({ value }) => value),
    tools: loadTools(join(directory, 'tools')),
    model: (modelId) => modelById.get(modelId),
    profile: (profileId) => profileById.get(profileId),
    tunerOf: (taskType) =>
      models.find(({ config: { is_active, trainer } }) => {
        return is_active && trainer.base === 'required' && trainer.base_task_types?.includes(taskType)
      }),
  }
}

function catalogModel(file: string, config: ModelConfigFile, profile: RuntimeProfile): CatalogModel {
  const { properties } = config.hyperparameters
  for (const [alias, name] of Object.entries(config.aliases)) {
    if (!(name in properties))
      throw badFile(file, `/aliases/${alias}`, `names an unknown hyperparameter: ${name}`)
    if (alias in properties) throw badFile(file, `/aliases/${alias}`, 'is also the name of a hyperparameter')
  }
  for (const name of config.auto ?? []) {
    if (!(name in properties)) throw badFile(file, '/auto', `names an unknown hyperparameter: ${name}`)
  }
  const validate = compile(file, config.hyperparameters)
  const defaults = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, one.default]))
  if (!validate(defaults))
    throw badFile(file, '/hyperparameters', `has an invalid default: ${firstFault(validate)}`)

  const listEntry = listEntryOf(config)
  return {
    config,
    profile,
    listEntry,
    detail: { ...listEntry, user_configurable_params: configurableParams(config) },
    schema: config.hyperparameters,
    resolveHyperparameters: (given) => resolve(config, validate, defaults, given),
    leastMemoryMb: (bytes) => Math.ceil(config.trainer.memory.base_mb + bytes / 2 ** 20),
    estimateMemoryMb: (bytes) =>
      Math.ceil(config.trainer.memory.base_mb + (config.trainer.memory.per_dataset_mb * bytes) / 2 ** 20),
  }
}

function resolve(
  config: ModelConfigFile,
  validate: ValidateFunction,
  defaults: Record<string, unknown>,
  given: Record<string, unknown>,
): ResolvedHyperparameters {
  const knownParameters: Record<string, unknown> = {}
  const spelling: Record<string, string> = {}
  const warnings: string[] = []
  const question = asker([...Object.keys(defaults), ...Object.keys(config.aliases)])
  const named = Object.entries(given).toSorted(([a], [b]) => Number(a in defaults) - Number(b in defaults))
  for (const [key, value] of named) {
    const name = Object.hasOwn(config.aliases, key) ? config.aliases[key] : key
    if (name === undefined || !Object.hasOwn(defaults, name)) {
      const meant = question(key)
      const warning = `Hyperparameter ${short(key)} is not known to ${config.model_id} and is ignored`
      warnings.push(meant ? `${warning}; ${meant}` : `${warning}.`)
      continue
    }
    // No hyperparameter accepts null. Some clients send every field of their types, so null means the default.
    if (value === null) continue
    // Canonical names are processed last, so they override their aliases.
    if (name in knownParameters)
      warnings.push(`Hyperparameter ${spelling[name]} is ignored because ${key} is given too.`)
    knownParameters[name] = value === 'auto' && config.auto?.includes(name) ? defaults[name] : value
    spelling[name] = key
  }

  const issues: HyperparameterIssue[] = []
  if (!validate(knownParameters)) {
    for (const error of validate.errors ?? []) {
      const [name = '', ...rest] = error.instancePath.slice(1).split('/')
      const path = ['', spelling[name] ?? name, ...rest].join('/')
      issues.push({ path, message: formatFault(error) })
    }
  }
  return { values: { ...defaults, ...knownParameters }, warnings, issues }
}

function listEntryOf(config: ModelConfigFile): ModelConfig {
  return {
    model_id: config.model_id,
    display_name: config.display_name,
    framework: config.framework,
    description: config.description,
    category: config.category,
    task_type: config.task_type,
    requires_gpu: config.requires_gpu,
    vram_required_mb: config.vram_required_mb,
    is_active: config.is_active,
    lifecycle_status: config.lifecycle_status,
  }
}

function configurableParams({
  hyperparameters,
}: ModelConfigFile): ModelConfigDetail['user_configurable_params'] {
  return Object.entries(hyperparameters.properties).map(([name, one]) => ({
    name,
    type: Array.isArray(one.type) ? one.type.join(' or ') : one.type,
    default: one.default,
    description: one.description,
  }))
}

function readAll<T extends object>(
  directory: string,
  schema: TSchema,
  id: keyof T & string,
): { file: string; value: T }[] {
  const validate = ajv.compile<T>(schema)
  const files = readdirSync(directory).filter((name) => name.endsWith('.json'))
  return files.toSorted().map((name) => {
    const file = join(directory, name)
    const value = checkedFile(file, validate)
    if (`${String(value[id])}.json` !== name) throw badFile(file, `/${id}`, 'differs from the file name')
    return { file, value }
  })
}

function compile(file: string, schema: HyperparameterSchema): ValidateFunction {
  try {
    return ajv.compile(schema)
  } catch (cause) {
    throw badFile(file, '/hyperparameters', `is not a JSON Schema: ${String(cause)}`, cause)
  }
}
