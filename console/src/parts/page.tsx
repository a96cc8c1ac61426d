import { Alert, Group, Loader, Paper, Stack, Text, Title } from '@mantine/core'
import { type ReactNode, useEffect } from 'react'
import { HearthError } from '../api.ts'

interface PageProps {
  title: string
  lead?: ReactNode
  actions?: ReactNode
  children: ReactNode
}

export function Page({ title, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Hearth`
  }, [title])
  return (
    <Stack gap="lg" maw={1200}>
      <Group justify="space-between" align="flex-start">
        <div>
          <Title order={1} size="h2">
            {title}
          </Title>
          {lead && (
            <Text c="dimmed" size="sm" component="div">
              {lead}
            </Text>
          )}
        </div>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  )
}

export function Panel({
  title,
  actions,
  children,
}: {
  title: string
  actions?: ReactNode
  children: ReactNode
}) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h5">
          {title}
        </Title>
        {actions}
      </Group>
      {children}
    </Paper>
  )
}

/** Shows the API's error message, or that something is still loading. */
export function Loading({ error, what }: { error: Error | null; what: string }) {
  if (error) return <Problem error={error} title={`The ${what} could not be loaded`} />
  return (
    <Group gap="xs" role="status">
      <Loader size="xs" />
      <Text size="sm">Loading {what} …</Text>
    </Group>
  )
}

/** The title of a failure, by the action that was tried. Any other failure is a failed read. */
const FAILED: Record<string, string> = {
  answer: 'No response arrived',
  change: 'The change was not made',
  deletion: 'The dataset was not deleted',
  delivery: 'The event was not delivered again',
  key: 'The key was not created',
  merge: 'The merge did not start',
  receiver: 'The receiver was not added',
  registration: 'The result was not registered',
  result: 'The request failed',
  run: 'The run did not start',
  serving: 'The model was not served',
  upload: 'The upload failed',
  vectors: 'The vectors were not computed',
}

export const Failure = ({ error, what }: { error: Error; what: string }) => (
  <Problem error={error} title={FAILED[what] ?? `The ${what} could not be loaded`} />
)

function Problem({ error, title }: { error: Error; title: string }) {
  const isRefused = error instanceof HearthError && (error.status === 401 || error.status === 403)
  return (
    <Alert color="red" variant="outline" title={title} role="alert">
      {withoutBody(error.message)}
      {isRefused && ' The key in use may have been revoked, or its role may not allow this.'}
    </Alert>
  )
}

/** The API names a field by its path in the request body; a form knows only its field names. */
const withoutBody = (message: string): string => message.replaceAll(/(?<=^|[;,] )body\.(?=[\w.[\]-]+: )/g, '')
