import { Alert, Autocomplete, Group } from '@mantine/core'
import type { RJSFSchema, UiSchema } from '@rjsf/utils'
import { number } from '../../format.ts'
import { Form } from '../../playground/form.ts'
import { uiOf } from '../../playground/ui-of.ts'
import validator from '../../playground/validator.ts'
import type { HyperparameterSchema } from '../../types.ts'

export type Settings = Record<string, unknown>

interface SettingsProps {
  of: HyperparameterSchema
  /** The values of settings that the user doesn't change. */
  usual: Settings
  value: Settings
  onChange: (value: Settings) => void
}

/** A table may have thousands. */
const OFFERED_COLUMNS = 50
const isColumn = (name: string): boolean => name.endsWith('_column')

/** Returns the default settings of a config. */
export const defaultsOf = (schema: HyperparameterSchema): Settings =>
  Object.fromEntries(Object.entries(schema.properties).map(([name, { default: each }]) => [name, each]))

/** The settings that name a column of the dataset, most importantly the column to predict. */
export function Columns({
  of,
  usual,
  columns,
  value,
  onChange,
}: SettingsProps & { columns: readonly string[] }) {
  const named = Object.entries(of.properties).filter(([name]) => isColumn(name))
  if (named.length === 0) return null
  const all = { ...usual, ...value } as Record<string, string | undefined>
  return (
    <Group align="flex-end">
      {named.map(([name, { description }]) => (
        <Autocomplete
          key={name}
          label={formatSettingName(name)}
          description={description}
          placeholder={chosenOf(name, description, columns)}
          data={[...columns]}
          limit={OFFERED_COLUMNS}
          value={all[name] ?? ''}
          onChange={(column) => onChange(changed({ ...value, [name]: column }, usual))}
          w={300}
        />
      ))}
    </Group>
  )
}

/** Describes which column is used when none is named. */
function chosenOf(name: string, description: string, columns: readonly string[]): string {
  if (name !== 'target_column') return 'chosen automatically'
  if (columns.includes('target')) return 'target'
  return /\blast one\b(?! with)/.test(description) ? 'the last column' : 'chosen by its values'
}

function formatSettingName(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words === 'target column' ? 'Column to predict' : words.charAt(0).toUpperCase() + words.slice(1)
}

/** The other hyperparameters; each has a default, and only what was changed is sent. */
export function SettingsForm({ of, usual, value, onChange }: SettingsProps) {
  const schema = formOf(of)
  const fields = Object.entries(uiOf(schema)).map(([name, ui]) => [
    name,
    // Reject a number that is too large with a message instead of clamping it.
    schema.properties?.[name]
      ? { ...ui, 'ui:options': { ...ui?.['ui:options'], clampBehavior: 'none' } }
      : ui,
  ])
  return (
    <Form
      tagName="div"
      schema={schema}
      uiSchema={Object.fromEntries(fields) as UiSchema}
      formData={shown(schema, { ...usual, ...value })}
      validator={validator}
      onChange={({ formData }) => onChange({ ...columnsOf(value), ...changed(formData as Settings, usual) })}
      liveValidate
      showErrorList={false}
    />
  )
}

/** Returns the settings that the API would reject. */
export function SettingFaults({ of }: { of: readonly string[] }) {
  if (of.length === 0) return null
  return (
    <Alert color="red" variant="outline" title="These settings are invalid" role="alert">
      {of.map((fault) => (
        <div key={fault}>{fault}</div>
      ))}
    </Alert>
  )
}

export function faultsOf(of: HyperparameterSchema, settings: Settings): string[] {
  const schema = formOf(of)
  return validator.validateFormData(shown(schema, settings), schema).errors.map(({ stack }) => stack)
}

/** The schema without column settings; the descriptions say what is allowed. */
function formOf(of: HyperparameterSchema): RJSFSchema {
  const properties = Object.entries(of.properties)
    .filter(([name]) => !isColumn(name))
    .map(([name, field]) => [name, { ...field, description: [field.description, rangeOf(field)].join(' ') }])
  return { ...of, properties: Object.fromEntries(properties) } as unknown as RJSFSchema
}

function rangeOf({ minimum, maximum }: { minimum?: number; maximum?: number }): string {
  if (minimum !== undefined && maximum !== undefined) return `From ${figure(minimum)} to ${figure(maximum)}.`
  if (maximum !== undefined) return `At most ${figure(maximum)}.`
  return minimum === undefined ? '' : `At least ${figure(minimum)}.`
}
/** Small fractions keep all of their digits. */
const figure = (value: number): string => (Number.isInteger(value) ? number(value) : String(value))

/** A run may have settings that the form lacks. */
const shown = (schema: RJSFSchema, settings: Settings): Settings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => schema.properties?.[name] !== undefined))

/** The form drops settings that its schema lacks. */
const columnsOf = (settings: Settings): Settings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => isColumn(name)))

const changed = (given: Settings, usual: Settings): Settings =>
  Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(usual[name] ?? ''),
    ),
  )
