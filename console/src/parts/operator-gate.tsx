import { Button, Group, PasswordInput, Text } from '@mantine/core'
import { type FormEvent, type ReactNode, useState } from 'react'
import { ADMIN, HearthError, call } from '../api.ts'
import { setKey, useKey } from '../session.ts'
import { Panel } from './page.tsx'

/** Asks for the operations key before it shows an operator page. */
export function OperatorGate({ children }: { children: ReactNode }) {
  const key = useKey('operations')
  const [text, setText] = useState('')
  const [problem, setProblem] = useState<string>()
  if (key !== null) return children

  async function submit(event: FormEvent) {
    event.preventDefault()
    const given = text.trim()
    try {
      await call(`${ADMIN}/killswitch/status`, { key: given })
      setKey('operations', given)
    } catch (err) {
      const isUnknown = err instanceof HearthError && (err.status === 401 || err.status === 403)
      setProblem(isUnknown ? 'This is not the operations key.' : (err as Error).message)
    }
  }
  return (
    <Panel title="For operators">
      <Text mb="sm">This page needs the operations key (HEARTH_OPERATIONS_KEY). It stays in this tab.</Text>
      <form onSubmit={(event) => void submit(event)}>
        <Group align="flex-end">
          <PasswordInput
            label="Operations key"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            error={problem}
            autoComplete="off"
            required
            w={320}
          />
          <Button type="submit">Open</Button>
        </Group>
      </form>
    </Panel>
  )
}
