import { Button, Group, Modal, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import type { RegistryEntry } from '../types.ts'
import { useAction } from '../use-action.ts'
import { usePages } from '../use-api.ts'
import { useMay } from '../use-may.ts'
import { DataTable } from './data-table.tsx'
import { Failure } from './page.tsx'

type Status = RegistryEntry['lifecycle_status']

interface StatusChange {
  entry: RegistryEntry
  to: Status
}
/** The lifecycle steps that an account admin may take; a candidate becomes ready through its test. */
const STEPS: Record<Status, readonly (readonly [to: Status, words: string])[]> = {
  candidate: [['disabled', 'Disable']],
  ready: [
    ['preferred', 'Prefer'],
    ['disabled', 'Disable'],
  ],
  preferred: [['disabled', 'Disable']],
  disabled: [['candidate', 'Test again']],
}

/** The models that can be trained and called, with their lifecycle from candidate to preferred. */
export function Registry() {
  const models = usePages<'models', RegistryEntry>(`${BUILDER}/models/registry`, 'models')
  const mayMove = useMay('admin')
  const { run, problem, isBusy } = useAction()
  const [disabling, setDisabling] = useState<StatusChange>()

  const move = ({ entry, to }: StatusChange, reason?: string) =>
    run(async () => {
      const change = { lifecycle_status: to, ...(reason && { reason }) }
      await client().models.changeLifecycle(entry.model_config_id, change)
      setDisabling(undefined)
    })
  return (
    <>
      {problem && <Failure error={problem} what="change" />}
      {disabling && (
        <ReasonDialog
          of={disabling}
          isBusy={isBusy}
          onClose={() => setDisabling(undefined)}
          onGiven={(reason) => void move(disabling, reason)}
        />
      )}
      <DataTable
        caption="registry"
        rows={models.rows}
        error={models.error}
        more={models}
        idOf={({ model_config_id }) => model_config_id}
        empty="The registry is empty."
        columns={[
          { head: 'Model', cell: ({ model_config_id }) => <span className="mono">{model_config_id}</span> },
          { head: 'Name', cell: ({ model_name }) => model_name },
          { head: 'Kind', cell: ({ task_type }) => task_type.replaceAll('_', ' ') },
          { head: 'Source', cell: ({ source, repo_id }) => repo_id ?? source },
          { head: 'Licence', cell: ({ licence }) => licence ?? '–' },
          {
            head: 'State',
            state: (entry) => ({ as: 'version', of: entry.lifecycle_status }),
            cell: (entry) => <Note of={entry} />,
          },
          ...(mayMove
            ? [
                {
                  head: 'Change',
                  cell: (entry: RegistryEntry) => (
                    <Steps
                      of={entry}
                      onStep={(to) =>
                        to === 'disabled' ? setDisabling({ entry, to }) : void move({ entry, to })
                      }
                    />
                  ),
                },
              ]
            : []),
        ]}
      />
    </>
  )
}

function Note({ of: { lifecycle_status: status, lifecycle_note: note } }: { of: RegistryEntry }) {
  const words = note ?? (status === 'candidate' ? 'Its test is not finished.' : undefined)
  return words && <Text size="xs">{words}</Text>
}

function Steps({ of, onStep }: { of: RegistryEntry; onStep: (to: Status) => void }) {
  if (of.source === 'hub' && !of.owned) return null
  return (
    <Group gap={4} wrap="nowrap">
      {STEPS[of.lifecycle_status].map(([to, words]) => (
        <Button
          key={to}
          size="compact-sm"
          variant="default"
          aria-label={`${words} ${of.model_name}`}
          onClick={() => onStep(to)}
        >
          {words}
        </Button>
      ))}
    </Group>
  )
}

interface ReasonProps {
  of: StatusChange
  isBusy: boolean
  onClose: () => void
  onGiven: (reason: string) => void
}

function ReasonDialog({ of: { entry }, isBusy, onClose, onGiven }: ReasonProps) {
  const [reason, setReason] = useState('')
  function submit(event: FormEvent) {
    event.preventDefault()
    onGiven(reason)
  }
  return (
    // Locking the page's scroll would add a style element, which the page's policy forbids.
    <Modal
      opened
      lockScroll={false}
      onClose={onClose}
      title={`Disable ${entry.model_name}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <form onSubmit={submit}>
        <Stack>
          <Text size="sm">No run and no request can use it until it is tested again.</Text>
          <TextInput
            label="Reason"
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            required
            data-autofocus
          />
          <Button type="submit" loading={isBusy} disabled={reason.trim() === ''}>
            Disable
          </Button>
        </Stack>
      </form>
    </Modal>
  )
}
