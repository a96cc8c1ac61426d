import { Button, Group, JsonInput, Stack, Switch, Text } from '@mantine/core'
import type { RJSFSchema, RJSFValidationError } from '@rjsf/utils'
import { useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { PageLink } from '../parts/link.tsx'
import { Failure, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import type { Endpoint, JsonSchema, Task } from '../types.ts'
import { useApi } from '../use-api.ts'
import { FileOf } from './file-of.tsx'
import { Form } from './form.ts'
import { Outputs } from './outputs.tsx'
import { Predictions } from './predictions.tsx'
import { type Row, rowSchemaOf, rowsIn, startOf } from './rows.ts'
import { FromTable, ManyRows, MAX_FIELDS } from './table-rows.tsx'
import { TEMPLATES } from './templates.tsx'
import { uiOf } from './ui-of.ts'
import validator from './validator.ts'

interface SchemaFormProps {
  endpoint: Endpoint
  /** The input as it was typed; undefined before that. */
  input: unknown
  onInput: (input: unknown) => void
}

/** A form generated from the endpoint's schema, or the same input as text, and the result. */
export default function SchemaForm({ endpoint, input: typed, onInput }: SchemaFormProps) {
  const input = typed ?? startOf(endpoint)
  const schema = endpoint.input_schema as RJSFSchema
  const [text, setText] = useState<string>()
  const [asked, setAsked] = useState<{ taskId: string; input: unknown }>()
  const [problem, setProblem] = useState<Error>()
  const [refused, setRefused] = useState<RJSFValidationError[]>([])
  const [isBusy, setBusy] = useState(false)
  const rowSchema = rowSchemaOf(endpoint.input_schema)
  const rows = rowsIn(input)
  const areMany = rowSchema !== undefined && rows.length > MAX_FIELDS

  async function run(given: unknown) {
    setBusy(true)
    setProblem(undefined)
    setRefused([])
    try {
      const input = given as Record<string, unknown>
      const { task_id } = await client().endpoints.inferAsync(endpoint.endpoint_id, { input })
      setAsked({ taskId: task_id, input })
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
  function runMany() {
    const { errors } = validator.validateFormData(input, schema)
    if (errors.length > 0) setRefused(errors)
    else void run(input)
  }
  function typeText(text: string) {
    setText(text)
    try {
      onInput(JSON.parse(text))
    } catch {
      // Incomplete JSON text isn't an input yet.
    }
  }
  function fill(instances: Row[]) {
    setRefused([])
    onInput({ ...Object(input), instances })
  }

  const buttons = (
    <Group mt="md">
      <Button
        type="submit"
        loading={isBusy}
        {...(text !== undefined && { type: 'button', onClick: runText })}
        {...(text === undefined && areMany && { type: 'button', onClick: runMany })}
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
      {refused[0] && (
        <Text role="alert" size="sm" className="refused">
          Not sent: {refused[0].stack}
          {refused.length > 1 && `, and ${refused.length - 1} more`}.
        </Text>
      )}
    </Group>
  )
  return (
    <Stack>
      <FileOf endpoint={endpoint} onSent={(field, url) => onInput({ ...Object(input), [field]: url })} />
      {rowSchema && text === undefined && <FromTable of={rowSchema} onRows={fill} />}
      {text === undefined && areMany && (
        <>
          <ManyRows of={rowSchema} rows={rows} onRows={fill} />
          {buttons}
        </>
      )}
      {text === undefined && !areMany && (
        <Form
          schema={schema}
          uiSchema={uiOf(endpoint.input_schema)}
          templates={TEMPLATES}
          formData={input}
          validator={validator}
          onChange={({ formData, errors }) => {
            onInput(formData)
            setRefused(refused.length > 0 ? errors : [])
          }}
          onSubmit={({ formData }) => void run(formData)}
          onError={setRefused}
          liveValidate={refused.length > 0}
          focusOnFirstError
          showErrorList={false}
          noHtml5Validate
        >
          {buttons}
        </Form>
      )}
      {text !== undefined && (
        <>
          <JsonInput
            label="Input"
            value={text}
            onChange={typeText}
            autosize
            minRows={6}
            maxRows={24}
            formatOnBlur
          />
          {buttons}
        </>
      )}
      {problem && <Failure error={problem} what="result" />}
      {asked && <Result {...asked} schema={endpoint.input_schema} />}
    </Stack>
  )
}

interface ResultProps {
  taskId: string
  input: unknown
  schema: JsonSchema
}

function Result({ taskId, input, schema }: ResultProps) {
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
      {data.result && (
        <Stack>
          <Predictions of={data.result} input={input} schema={schema} />
          <Outputs of={data.result} />
        </Stack>
      )}
    </Panel>
  )
}
