import { Button } from '@mantine/core'
import { useState } from 'react'
import { client } from '../api.ts'
import type { Dataset } from '../types.ts'
import { useAction } from '../use-action.ts'
import { Failure } from './page.tsx'

/** Deletes a dataset with its files at the second press. */
export function DeleteDataset({ dataset: of, onDone }: { dataset: Dataset; onDone?: () => unknown }) {
  const { run, isBusy, problem } = useAction()
  const [isSure, setSure] = useState(false)
  const remove = () =>
    run(async () => {
      await client().datasets.delete(of.dataset_id)
      await onDone?.()
    })
  return (
    <>
      {isSure ? (
        <Button size="compact-sm" color="red" loading={isBusy} onClick={() => void remove()}>
          Delete {of.dataset_name} for good
        </Button>
      ) : (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Delete ${of.dataset_name}`}
          onClick={() => setSure(true)}
        >
          Delete
        </Button>
      )}
      {problem && <Failure error={problem} what="deletion" />}
    </>
  )
}
