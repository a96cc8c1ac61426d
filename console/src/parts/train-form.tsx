import { Box, Button, Collapse, Group, Select, Stack, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import Form from '@rjsf/mantine'
import type { RJSFSchema } from '@rjsf/utils'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { uiOf } from '../playground/ui-of.ts'
import validator from '../playground/validator.ts'
import type { Dataset, Model, ModelConfig } from '../types.ts'
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
      {config && (
        <Collapse expanded={isOpen}>
          <Box mt="md" maw={640}>
            <SettingsForm key={config.model_id} of={config} value={settings} onChange={setSettings} />
          </Box>
        </Collapse>
      )}
    </Panel>
  )
}

interface SettingsProps {
  of: ModelConfig
  value: Settings
  onChange: (value: Settings) => void
}

/** The hyperparameters; each has a default, and only what was changed is sent. */
function SettingsForm({ of: { model_id }, value, onChange }: SettingsProps) {
  const { data, error } = useRead(['schema of config', model_id], () =>
    client().modelConfigs.schema(model_id),
  )
  if (!data) return error && <Failure error={error} what="settings" />
  const schema = data.schema as unknown as RJSFSchema
  const usual = Object.fromEntries(
    Object.entries(data.schema.properties).map(([name, { default: each }]) => [name, each]),
  )
  return (
    <Form
      tagName="div"
      schema={schema}
      uiSchema={uiOf(schema)}
      formData={{ ...usual, ...value }}
      validator={validator}
      onChange={({ formData }) => onChange(changed(formData as Settings, usual))}
      liveValidate
      showErrorList={false}
    />
  )
}

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
