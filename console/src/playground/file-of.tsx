import { FileInput, Group, Select } from '@mantine/core'
import { useState } from 'react'
import { client } from '../api.ts'
import { Failure } from '../parts/page.tsx'
import type { Endpoint } from '../types.ts'
import { useAction } from '../use-action.ts'

const isFile = (name: string): boolean => /^(?:image|audio|video|file)_url$/.test(name)

interface FileOfProps {
  endpoint: Endpoint
  /** Called with the field and the URL of the uploaded file. */
  onSent: (field: string, url: string) => void
}

/** Uploads a local file for a field that accepts a file URL. */
export function FileOf({ endpoint, onSent }: FileOfProps) {
  const fields = Object.keys((endpoint.input_schema['properties'] ?? {}) as object).filter(isFile)
  const [field = '', setField] = useState(fields[0])
  const [file, setFile] = useState<File | null>(null)
  const { run, isBusy, problem } = useAction()
  if (fields.length === 0) return null

  function send(chosen: File | null) {
    setFile(chosen)
    if (!chosen) return
    void run(async () => {
      const { input_url } = await client().endpoints.uploadInput(endpoint.endpoint_id, { file: chosen })
      onSent(field, input_url)
    })
  }
  return (
    <>
      <Group align="flex-end">
        <FileInput
          label={`A file for ${field}`}
          description="Its address is valid for an hour"
          placeholder={isBusy ? 'Sending …' : 'Choose a file'}
          value={file}
          onChange={send}
          disabled={isBusy}
          w={280}
        />
        {fields.length > 1 && (
          <Select
            label="Field"
            data={fields}
            value={field}
            onChange={(name) => name && setField(name)}
            allowDeselect={false}
            w={160}
          />
        )}
      </Group>
      {problem && <Failure error={problem} what="upload" />}
    </>
  )
}
