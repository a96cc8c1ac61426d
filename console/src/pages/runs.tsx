import { Button } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { BUILDER } from '../api.ts'
import { StateChoice } from '../parts/choice.tsx'
import { Page } from '../parts/page.tsx'
import { RunTable } from '../parts/runs/run-table.tsx'
import type { Run } from '../types.ts'
import { useSortedPages } from '../use-api.ts'

/** The chart has this many distinguishable colors. */
export const MAX_COMPARED = 8

export function Runs() {
  const [status, setStatus] = useState<string | null>(null)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const path = `${BUILDER}/training/runs`
  const runs = useSortedPages<'runs', Run>(path, 'runs', { status }, { isNamed: true })
  const navigate = useNavigate()

  const choose = (id: string, isChosen: boolean) =>
    setChosen(new Set(isChosen ? [...chosen, id] : [...chosen].filter((each) => each !== id)))

  return (
    <Page
      title="Runs"
      lead="Training runs and merges."
      actions={
        <>
          <StateChoice as="run" value={status} onChange={setStatus} />
          <Button
            variant="default"
            disabled={chosen.size < 2 || chosen.size > MAX_COMPARED}
            onClick={() => void navigate({ to: '/compare', search: { runs: [...chosen].join(',') } })}
          >
            {chosen.size > MAX_COMPARED
              ? `Compare at most ${MAX_COMPARED}`
              : `Compare ${chosen.size > 0 ? chosen.size : ''}`}
          </Button>
        </>
      }
    >
      <RunTable {...runs} chosen={chosen} onChoose={choose} />
    </Page>
  )
}
