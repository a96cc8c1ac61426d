import { Select } from '@mantine/core'

interface ChoiceProps {
  label: string
  /** The label of no choice. */
  any: string
  of: readonly string[]
  value: string | null | undefined
  onChange: (value: string | null) => void
  w?: number
}

/** A filter of a list: one of several values, or any. */
export function Choice({ label, any, of, value, onChange, w = 170 }: ChoiceProps) {
  return (
    <Select
      aria-label={label}
      placeholder={any}
      data={of.map((each) => ({ value: each, label: each.replaceAll('_', ' ') }))}
      value={value ?? null}
      onChange={onChange}
      clearable
      clearButtonProps={{ 'aria-label': any }}
      w={w}
    />
  )
}
