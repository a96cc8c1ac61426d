import { Button, Group, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { ADMIN, call } from '../../api.ts'
import { Facts, Time } from '../../parts/facts.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Failure, Loading, Page, Panel } from '../../parts/page.tsx'
import type { KillSwitch } from '../../types.ts'
import { useApi } from '../../use-api.ts'

export const KillSwitchPage = () => (
  <Page title="Kill switch" lead="While it is on, the gateways refuse new work; work in progress goes on.">
    <OperatorGate>
      <KillSwitchPanel />
    </OperatorGate>
  </Page>
)

function KillSwitchPanel() {
  const { data, error } = useApi<KillSwitch>(`${ADMIN}/killswitch/status`, { every: 2_000 })
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<Error>()
  const queries = useQueryClient()
  if (!data) return <Loading error={error} what="kill switch" />

  async function submit(event: FormEvent) {
    event.preventDefault()
    const action = data?.active ? 'deactivate' : 'activate'
    await call(`${ADMIN}/killswitch/${action}?${new URLSearchParams({ reason }).toString()}`, {
      method: 'POST',
    })
    setReason('')
    await queries.invalidateQueries()
  }
  return (
    <Panel title={data.active ? 'On: no new work is admitted' : 'Off: work is admitted'}>
      <Facts
        of={{
          'Gateways that know': `${data.gateways.acknowledged} of ${data.gateways.live}`,
          Reason: data.reason ?? '–',
          Changed: <Time at={data.changed_at} />,
          By: data.actor ?? '–',
        }}
      />
      {problem && <Failure error={problem} what="change" />}
      <form onSubmit={(event) => void submit(event).catch(setProblem)}>
        <Group align="flex-end" mt="md">
          <TextInput
            label="Reason"
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            required
            w={320}
          />
          <Button type="submit" variant="default">
            {data.active ? 'Admit work again' : 'Refuse new work'}
          </Button>
        </Group>
      </form>
    </Panel>
  )
}
