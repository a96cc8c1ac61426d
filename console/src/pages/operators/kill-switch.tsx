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
  <Page title="Kill switch" lead="While it is on, the gateways reject new work; work in progress continues.">
    <OperatorGate>
      <KillSwitchPanel />
    </OperatorGate>
  </Page>
)

function KillSwitchPanel() {
  const { data, error } = useApi<KillSwitch>(`${ADMIN}/killswitch/status`, { every: 2_000 })
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<Error>()
  const [isSure, setSure] = useState(false)
  const queries = useQueryClient()
  if (!data) return <Loading error={error} what="kill switch" />

  async function submit(event: FormEvent) {
    event.preventDefault()
    // One press of Enter must not stop the whole platform.
    if (!data?.active && !isSure) return setSure(true)
    const action = data?.active ? 'deactivate' : 'activate'
    await call(`${ADMIN}/killswitch/${action}?${new URLSearchParams({ reason }).toString()}`, {
      method: 'POST',
    })
    setReason('')
    setSure(false)
    await queries.invalidateQueries()
  }
  return (
    <Panel title={data.active ? 'All new work is blocked' : 'Normal operation'}>
      <Facts
        of={{
          'Gateways in sync': `${data.gateways.acknowledged} of ${data.gateways.live}`,
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
            onChange={(event) => {
              setReason(event.currentTarget.value)
              setSure(false)
            }}
            required
            w={320}
          />
          {data.active ? (
            <Button type="submit" variant="default">
              Resume
            </Button>
          ) : (
            <Button type="submit" color="red.9">
              {isSure ? 'Stop all new work for every account' : 'Stop all new work…'}
            </Button>
          )}
          {isSure && (
            <Button variant="default" onClick={() => setSure(false)}>
              Cancel
            </Button>
          )}
        </Group>
      </form>
    </Panel>
  )
}
