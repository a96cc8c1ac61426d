import { Button, Group, JsonInput, Stack, Switch, Text } from '@mantine/core'
import Form from '@rjsf/mantine'
import type { RJSFSchema } from '@rjsf/utils'
import { useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { PageLink } from '../parts/link.tsx'
import { Failure, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import type { Endpoint, Task } from '../types.ts'
import { useApi } from '../use-api.ts'
import { inOrder } from './fields.ts'
import { FileOf } from './file-of.tsx'
import { Outputs } from './outputs.tsx'
import { uiOf } from './ui-of.ts'
import validator from './validator.ts'

/** A form made from the endpoint's schema, or the same input as text, and the result. */
export default function SchemaForm({ endpoint }: { endpoint: Endpoint }) {
  const [input, setInput] = useState<unknown>(() =>
    inOrder(endpoint.example_input ?? {}, endpoint.input_schema),
  )
  const [text, setText] = useState<string>()
  const [taskId, setTaskId] = useState<string>()
  const [problem, setProblem] = useState<Error>()
  const [isBusy, setBusy] = useState(false)

  async function run(given: unknown) {
    setBusy(true)
    setProblem(undefined)
    try {
      const input = given as Record<string, unknown>
      const { task_id } = await client().endpoints.inferAsync(endpoint.endpoint_id, { input })
      setTaskId(task_id)
    } catch (err) {
      setProblem(err as Error)
    }
    setBusy(false)
  }
  function runText() {
    try {
      void run(JSON.parse(text ?? '{}'))
    } catch (err) {
      setProblem(err as Error)
    }
  }

  const buttons = (
    <Group mt="md">
      <Button
        type="submit"
        loading={isBusy}
        {...(text !== undefined && { type: 'button', onClick: runText })}
      >
        Run
      </Button>
      <Switch
        label="Input as JSON"
        checked={text !== undefined}
        onChange={(event) =>
          setText(event.currentTarget.checked ? JSON.stringify(input, null, 2) : undefined)
        }
      />
    </Group>
  )
  return (
    <Stack>
      <FileOf endpoint={endpoint} onSent={(field, url) => setInput({ ...Object(input), [field]: url })} />
      {text === undefined ? (
        <Form
          schema={endpoint.input_schema as RJSFSchema}
          uiSchema={uiOf(endpoint.input_schema)}
          formData={input}
          validator={validator}
          onChange={({ formData }) => setInput(formData)}
          onSubmit={({ formData }) => void run(formData)}
          onError={() => setTaskId(undefined)}
          focusOnFirstError
          showErrorList={false}
          noHtml5Validate
        >
          {buttons}
        </Form>
      ) : (
        <>
          <JsonInput
            label="Input"
            value={text}
            onChange={setText}
            autosize
            minRows={6}
            maxRows={24}
            formatOnBlur
          />
          {buttons}
        </>
      )}
      {problem && <Failure error={problem} what="result" />}
      {taskId && <Result taskId={taskId} />}
    </Stack>
  )
}

function Result({ taskId }: { taskId: string }) {
  const [isEnded, setEnded] = useState<string>()
  const { data, error } = useApi<Task>(`${BUILDER}/tasks/${taskId}`, {
    every: isEnded === taskId ? false : 700,
  })
  const ended = data?.status === 'succeeded' || data?.status === 'failed'
  if (ended && isEnded !== taskId) setEnded(taskId)
  if (!data) return error && <Failure error={error} what="result" />
  return (
    <Panel title="Result">
      <Group mb="sm">
        <State as="task" of={data.status} />
        {data.status_detail && !ended && <Text size="sm">{data.status_detail.progress_pct} %</Text>}
        {data.inference_time_ms !== null && <Text size="sm">{Math.round(data.inference_time_ms)} ms</Text>}
        <PageLink to="/tasks/$taskId" params={{ taskId }}>
          The task
        </PageLink>
      </Group>
      {data.status === 'failed' && <StateNote as="task" of="failed" why={data.error} />}
      {data.result && <Outputs of={data.result} />}
    </Panel>
  )
}
