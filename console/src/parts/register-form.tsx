import { Button, Group, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { client } from '../api.ts'
import type { Run } from '../types.ts'
import { useAction } from '../use-action.ts'
import { Failure, Panel } from './page.tsx'

/** The name of an endpoint has fewer characters than that of a run. */
export const endpointName = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|[._-]+$/g, '')

/** Puts what a run made to use: as a model with versions, or as an endpoint that answers. */
export function RegisterForm({ run: of }: { run: Run }) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState(of.job_name)
  const [served, setServed] = useState(endpointName(of.job_name))

  async function register() {
    const { model_id } = await client().models.create({ name, job_id: of.job_id })
    await navigate({ to: '/models/$modelId', params: { modelId: model_id } })
  }
  async function serve() {
    const { endpoint_id } = await client().runs.register(of.job_id, { name: served })
    await navigate({ to: '/endpoints/$endpointId', params: { endpointId: endpoint_id } })
  }
  const submit = (action: () => Promise<void>) => (event: FormEvent) => {
    event.preventDefault()
    void run(action)
  }
  return (
    <Panel title="Use the result">
      <Text size="sm" mb="xs">
        Serve makes an endpoint that answers with predictions.
      </Text>
      <form onSubmit={submit(serve)}>
        <Group align="flex-end">
          <TextInput
            label="Name of the endpoint"
            description="Lower-case letters, digits, . _ and -; nobody else has it"
            value={served}
            onChange={(event) => setServed(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" loading={isBusy}>
            Serve
          </Button>
        </Group>
      </form>
      <Text size="sm" mt="lg">
        Register keeps it as a version of a model, to share, merge or train further; it answers nothing yet.
      </Text>
      <form onSubmit={submit(register)}>
        <Group align="flex-end" mt="xs">
          <TextInput
            label="Name of the model"
            description="A known name gets one more version"
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
