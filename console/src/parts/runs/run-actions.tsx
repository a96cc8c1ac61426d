import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { client } from '../../api.ts'
import type { Run } from '../../types.ts'

interface RunActionsProps {
  run: Run
  isOpen: boolean
  onAgain: () => void
  onError: (error: Error) => void
}

/**
 * Offers the actions on a run in its present state. Cancelling takes a second click, because the training is then lost.
 */
export function RunActions({ run, isOpen, onAgain, onError }: RunActionsProps) {
  const queries = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [isCancelling, setCancelling] = useState(false)
  const { cancel, pause, resume } = client().runs

  async function attempt(action: (runId: string) => Promise<unknown>) {
    setBusy(true)
    try {
      await action(run.job_id)
      await queries.invalidateQueries()
    } catch (err) {
      onError(err as Error)
    }
    setBusy(false)
  }

  const isTraining = run.job_type === 'training'
  if (!isOpen)
    return (
      isTraining && (
        <Button variant="default" onClick={onAgain}>
          Run again
        </Button>
      )
    )
  if (isCancelling)
    return (
      <>
        <Button color="red" loading={isBusy} onClick={() => void attempt(cancel)}>
          Cancel the run
        </Button>
        <Button variant="default" onClick={() => setCancelling(false)}>
          Keep it running
        </Button>
      </>
    )
  return (
    <>
      {isTraining && (
        <Button variant="default" loading={isBusy} onClick={() => void attempt(run.paused ? resume : pause)}>
          {run.paused ? 'Resume' : 'Pause'}
        </Button>
      )}
      <Button variant="default" onClick={() => setCancelling(true)}>
        Cancel
      </Button>
    </>
  )
}
