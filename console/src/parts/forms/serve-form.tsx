import { Button, Group, Select, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, type ReactNode, useState } from 'react'
import { client } from '../../api.ts'
import type { ModelVersion } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { Failure, Panel } from '../page.tsx'

/** Endpoint names allow fewer characters than run names. */
const endpointName = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|[._-]+$/g, '')

interface ServeProps {
  /** The run that produced the served version. */
  jobId: string
  /** The proposed endpoint name. */
  name: string
  /** Additional fields, shown above the name. */
  children?: ReactNode
}

/** Serves the result of a run as an endpoint, and opens the endpoint's page. */
export function Serve({ jobId, name: proposed, children }: ServeProps) {
  const navigate = useNavigate()
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState(endpointName(proposed))

  async function serve() {
    const { endpoint_id } = await client().runs.register(jobId, { name })
    await navigate({ to: '/endpoints/$endpointId', params: { endpointId: endpoint_id } })
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(serve)
  }
  return (
    <>
      <form onSubmit={submit}>
        <Group align="flex-end">
          {children}
          <TextInput
            label="Name of the endpoint"
            description="Lower-case letters, digits, . _ and -; unique across accounts"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" loading={isBusy}>
            Serve
          </Button>
        </Group>
      </form>
      {problem && <Failure error={problem} what="serving" />}
    </>
  )
}

interface ServeFormProps {
  model: string
  versions: readonly ModelVersion[]
}

/** Serves a version from a run as an endpoint; an imported model already has one. */
export function ServeForm({ model, versions }: ServeFormProps) {
  const offered = versions.flatMap(({ job_id, name, lifecycle_status: status }) =>
    job_id !== null && status !== 'disabled' ? [{ value: job_id, label: name }] : [],
  )
  const [chosen = offered[0]?.value, choose] = useState<string>()
  if (chosen === undefined) return null
  return (
    <Panel title="Serve a version">
      <Serve jobId={chosen} name={model}>
        <Select
          label="Version"
          data={offered}
          value={chosen}
          onChange={(value) => value && choose(value)}
          allowDeselect={false}
          w={240}
        />
      </Serve>
    </Panel>
  )
}
