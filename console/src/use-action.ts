import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

/** Runs a button's action: tracks whether it's busy, stores its error, and reloads the lists of the page. */
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
