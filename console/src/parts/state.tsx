import { Alert } from '@mantine/core'
import type { ReactNode } from 'react'
import { type Stateful, stateOfRun, waitingFor, wordsOf } from '../states.ts'
import type { Run } from '../types.ts'

interface StateProps {
  as: Stateful
  of: string
  words?: string | undefined
}

/** A state in words; its colour is never the only sign. */
export function State({ as, of, words }: StateProps) {
  const [tone, usual, then] = wordsOf(as, of)
  return (
    <span className="state" data-tone={tone} title={then}>
      {words ?? usual}
    </span>
  )
}

export function RunState({ of }: { of: Run }) {
  const state = stateOfRun(of)
  const words = state.as === 'pause' ? undefined : waitingFor(of.waiting?.reason)
  return <State {...state} words={words} />
}

/** Says of what waits or has failed why it does, as far as the API knows, and what to do. Other states need no words. */
export function StateNote({ as, of, why }: Omit<StateProps, 'words'> & { why?: ReactNode }) {
  const [tone, words, then] = wordsOf(as, of)
  if (then === undefined) return null
  return (
    <Alert role="note" color={tone === 'bad' ? 'red' : 'yellow'} variant="outline" title={words}>
      {why && <div>{why}</div>}
      {then}
    </Alert>
  )
}
