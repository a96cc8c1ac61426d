import { Button, Group, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, call } from '../api.ts'
import type { Run } from '../types.ts'
import { useAction } from '../use-action.ts'
import { Failure, Panel } from './page.tsx'

/** Registers what a run made: as a model with versions, and then it opens that model. */
export function RegisterForm({ run: of }: { run: Run }) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState(of.job_name)

  async function register() {
    const body = { name, job_id: of.job_id }
    const { model_id } = await call<{ model_id: string }>(`${BUILDER}/models`, { method: 'POST', body })
    await navigate({ to: '/models/$modelId', params: { modelId: model_id } })
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(register)
  }
  return (
    <Panel title="Register the result">
      <form onSubmit={submit}>
        <Group align="flex-end">
          <TextInput
            label="Name of the model"
            description="A known name gets one more version"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" loading={isBusy}>
            Register
          </Button>
        </Group>
      </form>
      {problem && <Failure error={problem} what="model" />}
    </Panel>
  )
}
