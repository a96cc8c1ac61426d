import { Button, Group, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { client } from '../../api.ts'
import type { Run } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { Failure, Panel } from '../page.tsx'
import { Serve } from './serve-form.tsx'

/** Puts the result of a run to use: as a model with versions, or as an endpoint. */
export function RegisterForm({ run: of }: { run: Run }) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState(of.job_name)

  async function register() {
    const { model_id } = await client().models.create({ name, job_id: of.job_id })
    await navigate({ to: '/models/$modelId', params: { modelId: model_id } })
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(register)
  }
  return (
    <Panel title="Use the result">
      <Text size="sm" mb="xs">
        Serve this model as an endpoint.
      </Text>
      <Serve jobId={of.job_id} name={of.job_name} />
      <Text size="sm" mt="lg">
        Register it as a model version that you can share, merge or train further. It serves no requests yet.
      </Text>
      <form onSubmit={submit}>
        <Group align="flex-end" mt="xs">
          <TextInput
            label="Name of the model"
            description="If the name exists, the model gets another version"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" variant="default" loading={isBusy}>
            Register
          </Button>
        </Group>
      </form>
      {problem && <Failure error={problem} what="registration" />}
    </Panel>
  )
}
