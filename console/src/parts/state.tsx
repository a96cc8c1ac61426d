import { Alert } from '@mantine/core'
import type { ReactNode } from 'react'
import { type StateKind, stateOfRun, waitingFor, stateWordsFor } from '../states.ts'
import type { Run } from '../types.ts'

export interface StateProps {
  as: StateKind
  of: string
  words?: string | undefined
}

/** A state as text, so that its color is never the only sign. */
export function State({ as, of, words }: StateProps) {
  const [tone, usual] = stateWordsFor(as, of)
  return (
    <span className="state" data-tone={tone}>
      {words ?? usual}
    </span>
  )
}

export const RunState = ({ of }: { of: Run }) => <State {...runStateOf(of)} />

export function runStateOf(run: Run): StateProps {
  const state = stateOfRun(run)
  return { ...state, words: state.as === 'pause' ? undefined : waitingFor(run.waiting?.reason) }
}

/** Explains each waiting or failed state once: what happens next, or what to do. */
export function StatesToldOf({ of: states }: { of: readonly (StateProps | undefined)[] }) {
  const statesByKey = new Map<string, StateProps>()
  for (const state of states)
    if (state) statesByKey.set(`${state.as} ${state.of}`, { as: state.as, of: state.of })
  const unsettled = [...statesByKey.values()].filter(({ as, of }) => stateWordsFor(as, of)[2] !== undefined)
  if (unsettled.length === 0) return null
  return (
    <dl className="told" aria-label="What the states mean">
      {unsettled.map((state) => (
        <div key={`${state.as} ${state.of}`}>
          <dt>
            <State {...state} />
          </dt>
          <dd>{stateWordsFor(state.as, state.of)[2]}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Explains why something waits or has failed, if the API knows, and what to do. Other states need no explanation. */
export function StateNote({ as, of, why }: Omit<StateProps, 'words'> & { why?: ReactNode }) {
  const [tone, words, then] = stateWordsFor(as, of)
  if (then === undefined) return null
  return (
    <Alert role="note" color={tone === 'bad' ? 'red' : 'yellow'} variant="outline" title={words}>
      {why && <div>{why}</div>}
      {then}
    </Alert>
  )
}
