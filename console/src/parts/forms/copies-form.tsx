import { Button, Group, Select, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { client } from '../../api.ts'
import type { Scaling, SetScaling } from '../../types.ts'
import { useAction } from '../../use-action.ts'
import { Failure } from '../page.tsx'

const TARGETS = {
  none: 'What the model serves at once',
  in_flight: 'Requests for each copy',
  wait_ms: 'Milliseconds of waiting',
}
type TargetKind = keyof typeof TARGETS

/** Numbers are stored as typed. */
interface CopiesDraft {
  min: string
  max: string
  kind: TargetKind
  target: string
  /** Empty to use each node's idle timeout. */
  idle: string
}
type Count = Exclude<keyof CopiesDraft, 'kind'>

/** Sets an endpoint's copies. Fields that the user has not changed follow the setting whenever it is reloaded. */
export function CopiesForm({ of }: { of: Scaling }) {
  const { run, isBusy, problem } = useAction()
  const [typed, setTyped] = useState<Partial<CopiesDraft>>({})
  const wanted = { ...wantedOf(of), ...typed }
  const set = (change: Partial<CopiesDraft>) => setTyped((now) => ({ ...now, ...change }))
  const counts: Count[] = wanted.kind === 'none' ? ['min', 'max', 'idle'] : ['min', 'max', 'target', 'idle']
  const isWrong = counts.some((member) => faultOf(member, wanted) !== undefined)
  const count = (member: Count, label: string, placeholder?: string) => (
    <TextInput
      label={label}
      placeholder={placeholder}
      value={wanted[member]}
      onChange={(event) => set({ [member]: event.currentTarget.value.trim() })}
      error={faultOf(member, wanted)}
      inputMode="numeric"
      w={200}
    />
  )
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(async () => {
      await client().endpoints.setScaling(of.endpoint_id, bodyOf(wanted, of))
      setTyped({})
    })
  }
  return (
    <form onSubmit={submit}>
      <Group align="flex-start">
        {count('min', 'Copies at least')}
        {count('max', 'Copies at most')}
        <Select
          label="A copy is added beyond"
          data={Object.entries(TARGETS).map(([value, label]) => ({ value, label }))}
          value={wanted.kind}
          onChange={(kind) => kind && set({ kind: kind as TargetKind, target: '' })}
          allowDeselect={false}
          w={240}
        />
        {wanted.kind !== 'none' && count('target', TARGETS[wanted.kind])}
        {count('idle', 'Idle timeout in seconds', "each node's setting")}
      </Group>
      <Button type="submit" mt="sm" loading={isBusy} disabled={isWrong || Object.keys(typed).length === 0}>
        Set copies
      </Button>
      {problem && <Failure error={problem} what="change" />}
    </form>
  )
}

function wantedOf({ min, max, target_in_flight, target_wait_ms, idle_timeout_s }: Scaling): CopiesDraft {
  const text = (value: number | null) => (value === null ? '' : String(value))
  return {
    min: String(min),
    max: String(max),
    kind: target_in_flight !== null ? 'in_flight' : target_wait_ms !== null ? 'wait_ms' : 'none',
    target: text(target_in_flight ?? target_wait_ms),
    idle: text(idle_timeout_s),
  }
}

/** Returns what is wrong with a number; the API checks the upper limit. */
function faultOf(member: Count, wanted: CopiesDraft): string | undefined {
  const text = wanted[member]
  if (member === 'idle') return /^\d{0,7}$/.test(text) ? undefined : 'Seconds; 0 means never'
  if (member === 'min' ? !/^\d{1,4}$/.test(text) : !/^[1-9]\d{0,6}$/.test(text))
    return `A whole number, at least ${member === 'min' ? 0 : 1}`
  return member === 'min' && Number(text) > Number(wanted.max) ? 'More than the maximum' : undefined
}

/** Returns the whole setting, because the gateway replaces it; the schedule stays. */
const bodyOf = ({ min, max, kind, target, idle }: CopiesDraft, { schedule }: Scaling): SetScaling => ({
  min: Number(min),
  max: Number(max),
  target_in_flight: kind === 'in_flight' ? Number(target) : null,
  target_wait_ms: kind === 'wait_ms' ? Number(target) : null,
  idle_timeout_s: idle === '' ? null : Number(idle),
  schedule,
})
