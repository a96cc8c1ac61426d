import { Button, Center, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { HearthError, BUILDER, call } from './api.ts'
import { setKey } from './session.ts'

/** Asks for an API key, verifies it, and stores it as long as the tab is open. */
export function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const [key, setText] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isBusy, setBusy] = useState(false)

  async function submit(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    const found = await tryKey(key.trim())
    setBusy(false)
    setProblem(found)
    if (found !== undefined) return
    onSignedIn()
    setKey('api', key.trim())
  }

  return (
    <Center mih="100dvh" p="md" component="main">
      <Paper withBorder p="xl" w={420} maw="100%">
        <form onSubmit={(event) => void submit(event)}>
          <Stack>
            <Title order={1} size="h3">
              Hearth
            </Title>
            <Text size="sm">
              Paste an API key. It stays in this tab until you close it or sign out. <code>npm start</code>{' '}
              prints a link that signs you in automatically.
            </Text>
            <PasswordInput
              label="API key"
              value={key}
              onChange={(event) => setText(event.currentTarget.value)}
              error={problem}
              autoComplete="off"
              required
              data-autofocus
            />
            <Button type="submit" loading={isBusy}>
              Sign in
            </Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  )
}

async function tryKey(key: string): Promise<string | undefined> {
  try {
    await call(`${BUILDER}/queue/stats`, { key })
    return undefined
  } catch (err) {
    if (err instanceof HearthError && err.status === 401) return 'This key is unknown or revoked.'
    return (err as Error).message
  }
}
