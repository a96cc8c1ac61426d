import { Button, Group, MultiSelect, Select, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client, withQuery } from '../../api.ts'
import type { Endpoint, Model, Run } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { useApi, usePages } from '../../use-api.ts'
import { Failure, Panel } from '../page.tsx'

const METHODS = {
  adapter_merge: ['Adapter merge', 'Adds adapters to their base.'],
  slerp: ['SLERP', 'Spherical interpolation of two models.'],
  ties: ['TIES', 'Mixes the differences from the base where their signs agree.'],
  dare: ['DARE', 'Mixes a random part of the differences from the base.'],
} as const
type Method = keyof typeof METHODS
/** A picker's list must not grow without limit; name any other model by its version id. */
const OFFERED = 100
/** The configs whose result is a language model or an adapter of one; results of other configs can't be merged. */
const LANGUAGE_MODEL = /^llm-/
const OTHER_MODEL = /^(?:tabular|time-series|text-classification|embedding)/
const CHAT_TASK_TYPES = new Set(['chat', 'code', 'text-generation'])

interface ModelOption {
  value: string
  label: string
}

/** The value of an option says what it refers to: `version:<id>` or `job:<id>`. */
function refOf(value: string) {
  const [kind, id = ''] = value.split(':')
  return kind === 'job'
    ? { type: 'job' as const, job_id: id }
    : { type: 'model_version' as const, version_id: id }
}

/** The language models that the account can merge: registered ones, imported ones by their endpoints, results of runs. */
function useMergeable(): { offered: ModelOption[]; error: Error | null } {
  const models = usePages<'models', Model>(`${BUILDER}/models`, 'models', { limit: OFFERED })
  const endpoints = useApi<{ endpoints: Endpoint[] }>(withQuery(`${BUILDER}/endpoints`, { limit: OFFERED }))
  const runs = usePages<'runs', Run>(`${BUILDER}/training/runs`, 'runs', {
    status: 'completed',
    limit: OFFERED,
  })
  const registered = (models.rows ?? []).flatMap(({ name, latest_version: latest }) =>
    latest && !OTHER_MODEL.test(latest.model_config_id)
      ? [{ value: `version:${latest.version_id}`, label: `${name}: ${latest.name}` }]
      : [],
  )
  const served = (endpoints.data?.endpoints ?? []).flatMap(({ name, version_id, task_type }) =>
    version_id !== null && CHAT_TASK_TYPES.has(task_type)
      ? [{ value: `version:${version_id}`, label: `${name} (endpoint)` }]
      : [],
  )
  const made = (runs.rows ?? []).flatMap(({ job_id, job_name, job_type, model_config_id: config }) =>
    job_type === 'merge' || LANGUAGE_MODEL.test(config)
      ? [{ value: `job:${job_id}`, label: `${job_name} (${job_type === 'merge' ? 'merge' : 'run'})` }]
      : [],
  )
  const byValue = new Map([...made, ...served, ...registered].map((offer) => [offer.value, offer]))
  return { offered: [...byValue.values()].toReversed(), error: models.error ?? endpoints.error ?? runs.error }
}

/** Merges versions of the account's models. */
export function MergeForm() {
  const { offered, error } = useMergeable()
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState('')
  const [method, setMethod] = useState<Method>('slerp')
  const [base, setBase] = useState<string | null>(null)
  const [parts, setParts] = useState<string[]>([])
  const [weights, setWeights] = useState('')
  const given = weights.split(',').flatMap((text) => (text.trim() === '' ? [] : [Number(text)]))
  const areWeightsWrong = given.some(Number.isNaN) || (given.length > 0 && given.length !== parts.length)

  async function merge() {
    const refs = parts.map(refOf)
    const body = {
      name,
      method,
      ...(base && { base: refOf(base) }),
      ...(method === 'adapter_merge' ? { adapters: refs } : { sources: refs }),
      ...(given.length > 0 && { weights: given }),
    }
    const { job_id } = await client().merges.create(body)
    await navigate({ to: '/runs/$runId', params: { runId: job_id } })
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(merge)
  }
  return (
    <Panel title="Merge models">
      <form onSubmit={submit}>
        <Stack>
          <Group align="flex-start">
            <TextInput
              label="Name"
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              required
            />
            <Select
              label="Method"
              data={Object.entries(METHODS).map(([value, [label]]) => ({ value, label }))}
              value={method}
              onChange={(chosen) => chosen && setMethod(chosen as Method)}
              allowDeselect={false}
              description={METHODS[method][1]}
              w={320}
            />
          </Group>
          <Select
            label={method === 'slerp' ? 'Base (optional)' : 'Base'}
            data={offered}
            value={base}
            onChange={setBase}
            searchable
            clearable
            clearButtonProps={{ 'aria-label': 'No base' }}
            maw={520}
          />
          <MultiSelect
            label={method === 'adapter_merge' ? 'Adapters' : 'Models'}
            data={offered}
            value={parts}
            onChange={setParts}
            searchable
            maw={520}
          />
          <TextInput
            label="Weights"
            description="One for each, separated by commas; equal if empty"
            value={weights}
            onChange={(event) => setWeights(event.currentTarget.value)}
            error={areWeightsWrong && 'Enter one number for each model.'}
            maw={520}
          />
          <Text size="sm" c="dimmed">
            The result is a candidate. It becomes ready once its test has passed.
          </Text>
          {error && <Failure error={error} what="list of models" />}
          {problem && <Failure error={problem} what="merge" />}
          <Group>
            <Button type="submit" loading={isBusy} disabled={parts.length === 0 || areWeightsWrong}>
              Merge
            </Button>
          </Group>
        </Stack>
      </form>
    </Panel>
  )
}
