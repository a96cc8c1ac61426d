import { Button, Group, MultiSelect, Select, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import type { Model } from '../types.ts'
import { useAction } from '../use-action.ts'
import { usePages } from '../use-api.ts'
import { Failure, Panel } from './page.tsx'

const METHODS = {
  adapter_merge: 'Adapters are added to their base.',
  slerp: 'Two models are mixed along an arc.',
  ties: 'Differences from the base are mixed where their signs agree.',
  dare: 'A random part of the differences from the base is mixed.',
} as const
type Method = keyof typeof METHODS
/** A list in a picker must not grow without end; others are named by the id of their version. */
const OFFERED = 100

const refOf = (version_id: string) => ({ type: 'model_version' as const, version_id })

/** Merges versions of the account's models. */
export function MergeForm() {
  const models = usePages<'models', Model>(`${BUILDER}/models`, 'models', { limit: OFFERED })
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState('')
  const [method, setMethod] = useState<Method>('slerp')
  const [base, setBase] = useState<string | null>(null)
  const [parts, setParts] = useState<string[]>([])
  const [weights, setWeights] = useState('')
  const offered = (models.rows ?? []).flatMap(({ name: model, latest_version: latest }) =>
    latest ? [{ value: latest.version_id, label: `${model}: ${latest.name}` }] : [],
  )
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
              data={Object.keys(METHODS)}
              value={method}
              onChange={(chosen) => chosen && setMethod(chosen as Method)}
              allowDeselect={false}
              description={METHODS[method]}
              w={320}
            />
          </Group>
          <Select
            label={method === 'slerp' ? 'Base (not needed)' : 'Base'}
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
            description="One for each, with commas between; equal ones when empty"
            value={weights}
            onChange={(event) => setWeights(event.currentTarget.value)}
            error={areWeightsWrong && 'There must be a number for each model.'}
            maw={520}
          />
          <Text size="sm" c="dimmed">
            The result is a candidate. It becomes ready once its test has passed.
          </Text>
          {models.error && <Failure error={models.error} what="list of models" />}
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
