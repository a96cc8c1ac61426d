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

/** Says what went wrong in the words of the API, or that something is still loading. */
export function Loading({ error, what }: { error: Error | null; what: string }) {
  if (error) return <Failure error={error} what={what} />
  return (
    <Group gap="xs" role="status">
      <Loader size="xs" />
      <Text size="sm">Loading {what} …</Text>
    </Group>
  )
}

export function Failure({ error, what }: { error: Error; what: string }) {
  const isRefused = error instanceof HearthError && (error.status === 401 || error.status === 403)
  return (
    <Alert color="red" variant="outline" title={`No ${what}`} role="alert">
      {error.message}
      {isRefused && ' The key in use may have been revoked, or its role may not allow this.'}
    </Alert>
  )
}
