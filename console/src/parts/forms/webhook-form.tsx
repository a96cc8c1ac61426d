import { Button, Checkbox, Group, SimpleGrid, Stack, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { client } from '../../api.ts'
import type { CreateWebhookEndpoint, EndpointWithSecret } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { Failure } from '../page.tsx'

type EventType = CreateWebhookEndpoint['event_types'][number]

/** Type checking fails if an API event is missing here. */
const EVENT_TYPES: Record<EventType, true> = {
  'inference.task.succeeded': true,
  'inference.task.failed': true,
  'invocation.completed': true,
  'invocation.failed': true,
  'training.run.completed': true,
  'training.run.failed': true,
  'training.run.cancelled': true,
  'training.merge.completed': true,
  'training.merge.failed': true,
  'training.merge.cancelled': true,
}
export const EVENTS = Object.keys(EVENT_TYPES) as EventType[]

/** Adds a webhook endpoint; its secret is shown once. */
export function WebhookForm({ onMade }: { onMade: (endpoint: EndpointWithSecret) => void }) {
  const { run, isBusy, problem } = useAction()
  const [name, setName] = useState('')
  const [url, setUrl] = useState('')
  const [types, setTypes] = useState<EventType[]>(['training.run.completed', 'training.run.failed'])

  function submit(event: FormEvent) {
    event.preventDefault()
    void run(async () => {
      onMade(await client().webhooks.create({ name, url, event_types: types }))
      setName('')
      setUrl('')
    })
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Group align="flex-end">
          <TextInput
            label="Name of the receiver"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
          />
          <TextInput
            label="Address"
            placeholder="https://example.com/hearth"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
            required
            w={380}
          />
          <Button type="submit" loading={isBusy} disabled={types.length === 0}>
            Add a receiver
          </Button>
        </Group>
        <Checkbox.Group
          label="Events to send"
          value={types}
          onChange={(chosen) => setTypes(EVENTS.filter((each) => chosen.includes(each)))}
        >
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 4 }} mt="xs" spacing="xs">
            {EVENTS.map((each) => (
              <Checkbox key={each} value={each} label={each} size="xs" />
            ))}
          </SimpleGrid>
        </Checkbox.Group>
        {problem && <Failure error={problem} what="receiver" />}
      </Stack>
    </form>
  )
}
