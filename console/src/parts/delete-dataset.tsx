import { Button } from '@mantine/core'
import { useState } from 'react'
import { client } from '../api.ts'
import type { Dataset } from '../types.ts'
import { useAction } from '../use-action.ts'
import { useMay } from '../use-may.ts'
import { Failure } from './page.tsx'

/** Deletes a dataset and its files on the second click. Operators may delete failed datasets; admins may delete any. */
export function DeleteDataset({ dataset: of, onDone }: { dataset: Dataset; onDone?: () => unknown }) {
  const { run, isBusy, problem } = useAction()
  const [isSure, setSure] = useState(false)
  const mayDelete = useMay(of.status === 'failed' ? 'operator' : 'admin')
  const remove = () =>
    run(async () => {
      await client().datasets.delete(of.dataset_id)
      await onDone?.()
    })
  if (!mayDelete) return null
  return (
    <>
      {isSure ? (
        <Button size="compact-sm" color="red" loading={isBusy} onClick={() => void remove()}>
          Delete {of.dataset_name} permanently
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
