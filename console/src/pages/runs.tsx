import { Button, Select } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { BUILDER } from '../api.ts'
import { Page } from '../parts/page.tsx'
import { RunTable } from '../parts/run-table.tsx'
import type { Run } from '../types.ts'
import { usePages } from '../use-api.ts'

const STATES = ['pending', 'running', 'completed', 'failed', 'cancelled']

export function Runs() {
  const [status, setStatus] = useState<string | null>(null)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const runs = usePages<'runs', Run>(`${BUILDER}/training/runs`, 'runs', { status })
  const navigate = useNavigate()

  const choose = (id: string, isChosen: boolean) =>
    setChosen(new Set(isChosen ? [...chosen, id] : [...chosen].filter((each) => each !== id)))

  return (
    <Page
      title="Runs"
      lead="Training runs and merges, newest first."
      actions={
        <>
          <Select
            aria-label="State"
            placeholder="Every state"
            data={STATES}
            value={status}
            onChange={setStatus}
            clearable
            clearButtonProps={{ 'aria-label': 'Every state' }}
          />
          <Button
            variant="default"
            disabled={chosen.size < 2}
            onClick={() => void navigate({ to: '/compare', search: { runs: [...chosen].join(',') } })}
          >
            Compare {chosen.size > 0 ? chosen.size : ''}
          </Button>
        </>
      }
    >
      <RunTable rows={runs.rows} error={runs.error} more={runs} chosen={chosen} onChoose={choose} />
    </Page>
  )
}
