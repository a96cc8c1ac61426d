import { Button } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { BUILDER } from '../api.ts'
import { StateChoice } from '../parts/choice.tsx'
import { NEWEST } from '../parts/data-table.tsx'
import { Page } from '../parts/page.tsx'
import { RunTable } from '../parts/run-table.tsx'
import type { Run } from '../types.ts'
import { usePages } from '../use-api.ts'

/** The chart has as many colours that one can tell apart. */
export const MOST_COMPARED = 8

export function Runs() {
  const [status, setStatus] = useState<string | null>(null)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [sorted, setSorted] = useState(NEWEST)
  const runs = usePages<'runs', Run>(`${BUILDER}/training/runs`, 'runs', {
    status,
    sort: sorted.by,
    order: sorted.order,
  })
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
            disabled={chosen.size < 2 || chosen.size > MOST_COMPARED}
            onClick={() => void navigate({ to: '/compare', search: { runs: [...chosen].join(',') } })}
          >
            {chosen.size > MOST_COMPARED
              ? `Compare at most ${MOST_COMPARED}`
              : `Compare ${chosen.size > 0 ? chosen.size : ''}`}
          </Button>
        </>
      }
    >
      <RunTable
        rows={runs.rows}
        error={runs.error}
        more={runs}
        sorted={sorted}
        onSort={setSorted}
        chosen={chosen}
        onChoose={choose}
      />
    </Page>
  )
}
