import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

/** Runs what a button does: says when it is busy, keeps what went wrong, and loads the page's lists again. */
export function useAction() {
  const queries = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Error>()

  async function run(action: () => Promise<unknown>): Promise<void> {
    setBusy(true)
    setProblem(undefined)
    try {
      await action()
      await queries.invalidateQueries()
    } catch (err) {
      setProblem(err as Error)
    } finally {
      setBusy(false)
    }
  }
  return { run, isBusy, problem }
}
