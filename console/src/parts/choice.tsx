import { Select } from '@mantine/core'
import { STATES, type StateKind, stateWordsFor } from '../states.ts'

interface ChoiceProps {
  label: string
  /** The label for no selection. */
  any: string
  of: readonly (string | { value: string; label: string })[]
  value: string | null | undefined
  onChange: (value: string | null) => void
  w?: number
}

/** A list filter: one of several values, or any. */
export function Choice({ label, any, of, value, onChange, w = 170 }: ChoiceProps) {
  return (
    <Select
      aria-label={label}
      placeholder={any}
      data={of.map((each) =>
        typeof each === 'string' ? { value: each, label: each.replaceAll('_', ' ') } : each,
      )}
      value={value ?? null}
      onChange={onChange}
      clearable
      clearButtonProps={{ 'aria-label': any }}
      w={w}
    />
  )
}

/** A filter by state. */
export function StateChoice({ as, ...rest }: Pick<ChoiceProps, 'value' | 'onChange'> & { as: StateKind }) {
  const states = Object.keys(STATES[as]).map((value) => ({ value, label: stateWordsFor(as, value)[1] }))
  return <Choice label="State" any="Every state" of={states} {...rest} w={200} />
}
