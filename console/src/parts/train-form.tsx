import { Autocomplete, Box, Button, Collapse, Group, Select, Stack, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import Form from '@rjsf/mantine'
import type { RJSFSchema } from '@rjsf/utils'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { uiOf } from '../playground/ui-of.ts'
import validator from '../playground/validator.ts'
import type { Dataset, HyperparameterSchema, Model } from '../types.ts'
import { useAction } from '../use-action.ts'
import { usePages, useRead } from '../use-api.ts'
import { Failure, Panel } from './page.tsx'

type Settings = Record<string, unknown>

/** Starts a run on a dataset, and opens its page. */
export default function TrainForm({ dataset }: { dataset: Dataset }) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const configs = useRead(['model configs'], () => client().modelConfigs.list({ active_only: true }))
  const [chosen, choose] = useState<string | null>(null)
  const [name, setName] = useState(dataset.dataset_name)
  const [base, setBase] = useState<string | null>(null)
  const [settings, setSettings] = useState<Settings>({})
  const [isOpen, { toggle }] = useDisclosure()
  const offered = configs.data?.model_configs ?? []
  const config = offered.find(({ model_id }) => model_id === chosen)
  const schema = useRead(['schema of config', chosen], () =>
    chosen === null ? Promise.resolve(null) : client().modelConfigs.schema(chosen),
  )
  const data = config && schema.data

  function submit(event: FormEvent) {
    event.preventDefault()
    if (!config) return
    void run(async () => {
      const { job_id } = await client().runs.create({
        job_name: name,
        model_config_id: config.model_id,
        dataset_id: dataset.dataset_id,
        hyperparameters: settings,
        ...(base && { base: { type: 'model_version', version_id: base } }),
      })
      await navigate({ to: '/runs/$runId', params: { runId: job_id } })
    })
  }
  return (
    <Panel title="Train on it">
      <form onSubmit={submit}>
        <Stack>
          <Group align="flex-start">
            <Select
              label="What to train"
              placeholder="Choose a kind of model"
              data={offered.map(({ model_id, display_name }) => ({ value: model_id, label: display_name }))}
              value={chosen}
              onChange={(id) => {
                choose(id)
                setSettings({})
              }}
              searchable
              required
              w={300}
            />
            <TextInput
              label="Name of the run"
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              required
              w={300}
            />
            <BaseChoice value={base} onChange={setBase} />
          </Group>
          {config && <Text size="sm">{config.description}</Text>}
          {data && (
            <Columns
              key={chosen}
              of={data.schema}
              columns={dataset.columns?.map((column) => column.name) ?? []}
              value={settings}
              onChange={setSettings}
            />
          )}
          {schema.error && <Failure error={schema.error} what="settings" />}
          {configs.error && <Failure error={configs.error} what="kinds of models" />}
          {problem && <Failure error={problem} what="run" />}
          <Group>
            <Button type="submit" loading={isBusy} disabled={!config}>
              Train
            </Button>
            {config && (
              <Button variant="subtle" onClick={toggle} aria-expanded={isOpen}>
                {isOpen ? 'Hide the settings' : 'Settings'}
              </Button>
            )}
          </Group>
        </Stack>
      </form>
      {data && (
        <Collapse expanded={isOpen}>
          <Box mt="md" maw={640}>
            <SettingsForm key={chosen} of={data.schema} value={settings} onChange={setSettings} />
          </Box>
        </Collapse>
      )}
    </Panel>
  )
}

interface SettingsProps {
  of: HyperparameterSchema
  value: Settings
  onChange: (value: Settings) => void
}

/** A table may have thousands. */
const OFFERED_COLUMNS = 50
const isColumn = (name: string): boolean => name.endsWith('_column')

/** The settings that name a column of the dataset; which one to predict is what a run is about. */
function Columns({ of, columns, value, onChange }: SettingsProps & { columns: readonly string[] }) {
  const named = Object.entries(of.properties).filter(([name]) => isColumn(name))
  if (named.length === 0) return null
  return (
    <Group align="flex-end">
      {named.map(([name, { description, default: usual }]) => (
        <Autocomplete
          key={name}
          label={wordsOf(name)}
          description={description}
          placeholder={typeof usual === 'string' && usual ? usual : 'chosen by itself'}
          data={columns}
          limit={OFFERED_COLUMNS}
          value={(value[name] as string | undefined) ?? ''}
          onChange={(column) => onChange({ ...value, [name]: column || undefined })}
          w={300}
        />
      ))}
    </Group>
  )
}

function wordsOf(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words === 'target column' ? 'Column to predict' : words[0]!.toUpperCase() + words.slice(1)
}

/** The other hyperparameters; each has a default, and only what was changed is sent. */
function SettingsForm({ of, value, onChange }: SettingsProps) {
  const properties = Object.fromEntries(Object.entries(of.properties).filter(([name]) => !isColumn(name)))
  const schema = { ...of, properties } as unknown as RJSFSchema
  const usual = Object.fromEntries(
    Object.entries(properties).map(([name, { default: each }]) => [name, each]),
  )
  return (
    <Form
      tagName="div"
      schema={schema}
      uiSchema={uiOf(schema)}
      formData={{ ...usual, ...value }}
      validator={validator}
      onChange={({ formData }) => onChange({ ...columnsOf(value), ...changed(formData as Settings, usual) })}
      liveValidate
      showErrorList={false}
    />
  )
}

/** The form drops what its schema lacks. */
const columnsOf = (settings: Settings): Settings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => isColumn(name)))

const changed = (given: Settings, usual: Settings): Settings =>
  Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(usual[name]),
    ),
  )

/** The model that training begins with; most tables need none. */
function BaseChoice({ value, onChange }: { value: string | null; onChange: (id: string | null) => void }) {
  const models = usePages<'models', Model>(`${BUILDER}/models`, 'models', { limit: 100 })
  return (
    <Select
      label="Begin with"
      placeholder="nothing, or the usual base"
      data={(models.rows ?? []).flatMap(({ name, latest_version: latest }) =>
        latest ? [{ value: latest.version_id, label: `${name}: ${latest.name}` }] : [],
      )}
      value={value}
      onChange={onChange}
      searchable
      clearable
      clearButtonProps={{ 'aria-label': 'Nothing' }}
      w={300}
    />
  )
}
