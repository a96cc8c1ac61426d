import { Box, Button, Collapse, Group, Select, Stack, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../../api.ts'
import type { Dataset, Model } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { usePages, useRead } from '../../use-api.ts'
import { Failure, Panel } from '../page.tsx'
import {
  Columns,
  defaultsOf,
  faultsOf,
  SettingFaults,
  type Settings,
  SettingsForm,
} from '../runs/run-settings.tsx'

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
  const usual = data ? defaultsOf(data.schema) : {}
  const faults = data ? faultsOf(data.schema, { ...usual, ...settings }) : []
  // Tree models start from scratch; continuing from earlier trees is an ordinary setting.
  const isTable = config?.category === 'ml_classical'
  const begin = <BaseChoice value={base} onChange={setBase} />

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
              renderOption={({ option }) => (
                <div>
                  <div>{option.label}</div>
                  <Text size="xs" c="dimmed">
                    {offered.find(({ model_id }) => model_id === option.value)?.description}
                  </Text>
                </div>
              )}
              comboboxProps={{ width: 480, position: 'bottom-start' }}
              maxDropdownHeight={480}
              value={chosen}
              onChange={(id) => {
                choose(id)
                setSettings({})
                setBase(null)
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
            {config && !isTable && begin}
          </Group>
          {config && <Text size="sm">{config.description}</Text>}
          {data && (
            <Columns
              key={chosen}
              of={data.schema}
              usual={usual}
              columns={dataset.columns?.map((column) => column.name) ?? []}
              value={settings}
              onChange={setSettings}
            />
          )}
          {schema.error && <Failure error={schema.error} what="settings" />}
          {configs.error && <Failure error={configs.error} what="kinds of models" />}
          {problem && <Failure error={problem} what="run" />}
          <SettingFaults of={faults} />
          <Group>
            <Button type="submit" loading={isBusy} disabled={!config || faults.length > 0}>
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
            {isTable && begin}
            <SettingsForm
              key={chosen}
              of={data.schema}
              usual={usual}
              value={settings}
              onChange={setSettings}
            />
          </Box>
        </Collapse>
      )}
    </Panel>
  )
}

/** The model that training starts from. */
function BaseChoice({ value, onChange }: { value: string | null; onChange: (id: string | null) => void }) {
  const models = usePages<'models', Model>(`${BUILDER}/models`, 'models', { limit: 100 })
  return (
    <Select
      label="Start from"
      placeholder="the usual base, or nothing"
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
