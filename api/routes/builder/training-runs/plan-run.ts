import type { DatasetRow } from '../../../../db/tables/datasets.ts'
import { listedNames, openTypes, shortName } from '../../../../domain/datasets/columns.ts'
import { targetColumn, missingTargetReason } from '../../../../domain/datasets/target-column.ts'
import { ApiError, invalid, type Issue } from '../../../../domain/errors.ts'
import { hardwareFor } from '../../../../domain/training/training-run.ts'
import type { CatalogModel } from '../../../../platform/catalog.ts'
import type { HardwarePreference } from '../../../../schemas/training-run.ts'

/** Maximum missing columns of one hyperparameter to report, because each message lists the existing columns. */
const MAX_MISSING = 20

/** Throws for a dataset that this config cannot be trained on now. */
export function assertTrainable(
  { config }: CatalogModel,
  dataset: Pick<DatasetRow, 'status' | 'storage_format'>,
): void {
  if (dataset.status !== 'ready') {
    throw new ApiError(
      'conflict',
      `the dataset is ${dataset.status}; training needs a dataset that is ready`,
      {
        details: { dataset_status: dataset.status },
      },
    )
  }
  if (config.dataset_formats.includes(dataset.storage_format)) return
  const formats = config.dataset_formats.join(', ')
  throw invalid(
    ['body', 'dataset_id'],
    `${config.model_id} accepts ${formats}; this dataset is ${dataset.storage_format}`,
  )
}

/**
 * Returns the values with defaults filled in, and warnings for ignored ones. Throws a 422 that names every known value
 * that is invalid.
 */
export function resolveHyperparameters(
  model: CatalogModel,
  given: Record<string, unknown>,
  { columns, storage_format }: Pick<DatasetRow, 'columns' | 'storage_format'>,
): { values: Record<string, unknown>; warnings: string[] } {
  const { values, warnings, issues } = model.resolveHyperparameters(given)
  const found: Issue[] = issues.map(({ path, message }) => ({
    loc: ['body', 'hyperparameters', ...path.split('/').slice(1)],
    msg: message,
    type: 'hyperparameter',
  }))
  if (found.length === 0 && columns) found.push(...missingColumns(model, { given, values, columns }))
  const target =
    found.length === 0 && columns ? targetOf(model, { given, values, columns }, storage_format) : {}
  if (target.issue) found.push(target.issue)
  const [first] = found
  if (!first) return { values: { ...values, ...target.chosen }, warnings }
  throw new ApiError('validation_failed', `${first.loc.slice(1).join('.')}: ${first.msg}`, {
    details: { issues: found },
  })
}

interface ResolvedRun {
  given: Record<string, unknown>
  values: Record<string, unknown>
  columns: NonNullable<DatasetRow['columns']>
}

/**
 * Returns the column to predict, chosen here if the run names none, so that the run shows it. If that column cannot be
 * the target, returns the reason.
 */
function targetOf(
  { config }: CatalogModel,
  { given, values, columns }: ResolvedRun,
  storageFormat: string,
): { chosen?: { target_column: string }; issue?: Issue } {
  if (!config.target) return {}
  const value = values['target_column']
  const named = typeof value === 'string' ? value : ''
  const taken = [values['text_column'], values['time_column']]
  const open = openTypes(columns, storageFormat)
  const target = targetColumn(config.target, { named, taken, columns: open })
  if (target === undefined) return {}
  const why = missingTargetReason(config.target, {
    model: config.model_id,
    target,
    columns: named === '' ? columns : open,
  })
  if (why === undefined) return { chosen: { target_column: target } }
  const msg = named === '' ? `${why}; the request names no target_column, so this one would be used` : why
  const loc = ['body', 'hyperparameters', spellingOf(config, given, 'target_column')]
  return { issue: { loc, msg, type: 'column' } }
}

/** Returns the caller's spelling of a hyperparameter. */
const spellingOf = (
  { aliases }: CatalogModel['config'],
  given: Record<string, unknown>,
  name: string,
): string => Object.keys(given).find((one) => (aliases[one] ?? one) === name) ?? name

/**
 * Returns issues for missing columns: columns that hyperparameters name, and columns that the type of rows requires.
 */
function missingColumns({ config }: CatalogModel, run: ResolvedRun): Issue[] {
  const names = run.columns.map(({ name }) => name)
  const present = new Set(names)
  const { dataset_rules: rules } = config
  if (rules) return missingByRule(config, rules, run)
  return Object.entries(run.values).flatMap(([key, value]) => {
    const spelling = spellingOf(config, run.given, key)
    return columnsNamed(key, value)
      .filter(({ name }) => !present.has(name))
      .slice(0, MAX_MISSING)
      .map(({ name, at }) => {
        const msg = `the dataset has no column ${shortName(name)}; it has ${listedNames(names)}`
        return { loc: ['body', 'hyperparameters', spelling, ...at], msg, type: 'column' }
      })
  })
}

/** Returns the dataset columns that a hyperparameter names: `target_column` is one name, `ignore_columns` a list. */
function columnsNamed(key: string, value: unknown): { name: string; at: number[] }[] {
  if (key.endsWith('_column') && typeof value === 'string' && value !== '') return [{ name: value, at: [] }]
  if (!key.endsWith('_columns') || !Array.isArray(value)) return []
  return value.map((name, i) => ({ name: String(name), at: [i] }))
}

function missingByRule(
  { model_id }: CatalogModel['config'],
  { parameter, columns }: NonNullable<CatalogModel['config']['dataset_rules']>,
  { values, columns: present }: ResolvedRun,
): Issue[] {
  const names = present.map(({ name }) => name)
  const kind = String(values[parameter])
  const groups = (columns[kind] ?? []).map((group) =>
    group.map((name) => name.replaceAll(/\{(\w+)\}/g, (_, key: string) => String(values[key]))),
  )
  return groups
    .filter((group) => !group.some((name) => names.includes(name)))
    .map((group) => {
      const wanted = group.join(' or ')
      const msg = `${model_id} with ${parameter} ${kind} needs the column ${wanted}; the dataset has ${listedNames(names)}`
      return { loc: ['body', 'dataset_id'], msg, type: 'column' }
    })
}

/**
 * Returns whether to prefer a GPU node, without waiting for one. Language models train on any node, but faster on a
 * GPU.
 */
export const prefersGpu = ({ config }: CatalogModel, preference: HardwarePreference): boolean =>
  preference === 'gpu_preferred' || (preference === 'auto' && config.vram_required_mb > 0)

/** Returns the kind of node to wait for; throws a 422 if no kind fits. */
export function chooseHardware(
  { config }: CatalogModel,
  preference: HardwarePreference,
  run: { values: Record<string, unknown>; gpuOnline: boolean },
): 'cpu' | 'gpu' {
  const cudaOnly = Object.entries(config.cuda_only ?? {}).find(([name, those]) =>
    those.includes(String(run.values[name])),
  )
  if (cudaOnly && preference === 'cpu_only') {
    const [name] = cudaOnly
    throw invalid(
      ['body', 'hyperparameters', name],
      `${String(run.values[name])} needs a CUDA node, but hardware_preference is cpu_only`,
    )
  }
  const requiresGpu = config.requires_gpu || cudaOnly !== undefined
  const choice = hardwareFor(preference, { requiresGpu, gpuOnline: run.gpuOnline })
  if ('hardware' in choice) return choice.hardware
  throw invalid(['body', 'hardware_preference'], choice.refused)
}
