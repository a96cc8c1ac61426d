import { Box, Button, Group, Stack, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../../api.ts'
import type { Dataset, Run } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { useApi, useRead } from '../../use-api.ts'
import { Failure, Panel } from '../page.tsx'
import {
  Columns,
  defaultsOf,
  faultsOf,
  SettingFaults,
  type Settings,
  SettingsForm,
} from '../runs/run-settings.tsx'

/** Reruns an earlier run under a new name, with changes. */
export default function AgainForm({ run: of, onClose }: { run: Run; onClose: () => void }) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState(nextName(of.job_name))
  const [settings, setSettings] = useState<Settings>({})
  const schema = useRead(['schema of config', of.model_config_id], () =>
    client().modelConfigs.schema(of.model_config_id),
  )
  const dataset = useApi<Dataset>(of.dataset_id && `${BUILDER}/datasets/${of.dataset_id}`, { every: false })
  const usual = { ...(schema.data && defaultsOf(schema.data.schema)), ...of.hyperparameters }
  const faults = schema.data ? faultsOf(schema.data.schema, { ...usual, ...settings }) : []

  function submit(event: FormEvent) {
    event.preventDefault()
    void run(async () => {
      const { job_id } = await client().runs.again(of.job_id, { job_name: name, hyperparameters: settings })
      await navigate({ to: '/runs/$runId', params: { runId: job_id } })
    })
  }
  return (
    <Panel title="Run it again">
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="Name of the run"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            maxLength={200}
            w={300}
          />
          {problem && <Failure error={problem} what="run" />}
          {schema.error && <Failure error={schema.error} what="settings" />}
          <SettingFaults of={faults} />
          <Group>
            <Button type="submit" loading={isBusy} disabled={faults.length > 0}>
              Start the run
            </Button>
            <Button variant="subtle" onClick={onClose}>
              Not now
            </Button>
          </Group>
        </Stack>
      </form>
      {schema.data && (
        <Stack mt="md" maw={640}>
          <Columns
            of={schema.data.schema}
            usual={usual}
            columns={dataset.data?.columns?.map((column) => column.name) ?? []}
            value={settings}
            onChange={setSettings}
          />
          <Box>
            <SettingsForm of={schema.data.schema} usual={usual} value={settings} onChange={setSettings} />
          </Box>
        </Stack>
      )}
    </Panel>
  )
}

/** `houses` is followed by `houses 2`. */
function nextName(name: string): string {
  const [, words = name, count = '1'] = /^(.*\S) (\d{1,3})$/.exec(name) ?? []
  return `${words} ${Number(count) + 1}`
}
