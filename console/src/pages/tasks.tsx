import { Button, Group, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { BUILDER, client } from '../api.ts'
import { number, seconds, shortId } from '../format.ts'
import { Choice, StateChoice } from '../parts/choice.tsx'
import { Cohort } from '../parts/cohort.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { PageLink } from '../parts/link.tsx'
import { Failure, Loading, Page, Panel } from '../parts/page.tsx'
import { State, StateNote } from '../parts/state.tsx'
import { useWorkflow } from '../parts/temporal-link.tsx'
import { Outputs } from '../playground/outputs.tsx'
import type { ListedTask, Task } from '../types.ts'
import { useApi, useSortedPages } from '../use-api.ts'
import { useMay } from '../use-may.ts'

const SURFACES = ['rest', 'openai', 'mcp', 'action', 'cohort']

const HOUR_MS = 3_600_000
const SPANS: Record<string, number> = {
  'In the last hour': HOUR_MS,
  'In the last day': 24 * HOUR_MS,
  'In the last week': 7 * 24 * HOUR_MS,
}
interface Filter {
  status?: string | null
  surface?: string | null
  span?: string | null
  since?: string | null
}

function sinceOf(span: string | null): string | null {
  const ms = span === null ? undefined : SPANS[span]
  return ms === undefined ? null : new Date(Date.now() - ms).toISOString()
}

export function Tasks() {
  const navigate = useNavigate()
  const [id, setId] = useState('')
  const [{ span, ...filter }, setFilter] = useState<Filter>({})
  const tasks = useSortedPages<'tasks', ListedTask>(`${BUILDER}/tasks`, 'tasks', { ...filter })

  function look(event: FormEvent) {
    event.preventDefault()
    if (id.trim()) void navigate({ to: '/tasks/$taskId', params: { taskId: id.trim() } })
  }
  return (
    <Page title="Tasks" lead="Inference requests of this account.">
      <form onSubmit={look}>
        <Group align="flex-end">
          <TextInput
            label="Find a task by its id"
            value={id}
            onChange={(event) => setId(event.currentTarget.value)}
            w={340}
          />
          <Button type="submit" variant="default">
            Open
          </Button>
        </Group>
      </form>
      <Group align="flex-end">
        <StateChoice
          as="task"
          value={filter.status}
          onChange={(status) => setFilter((now) => ({ ...now, status }))}
        />
        <Choice
          label="Caller"
          any="Every caller"
          of={SURFACES}
          value={filter.surface}
          onChange={(surface) => setFilter((now) => ({ ...now, surface }))}
          w={190}
        />
        <Choice
          label="Created"
          any="At any time"
          of={Object.keys(SPANS)}
          value={span}
          onChange={(chosen) => setFilter((now) => ({ ...now, span: chosen, since: sinceOf(chosen) }))}
        />
      </Group>
      <DataTable
        caption="tasks"
        {...tasks}
        idOf={({ task_id }) => task_id}
        empty={
          filter.status || filter.surface || filter.since
            ? 'No tasks match.'
            : "No tasks yet. An endpoint's playground creates one."
        }
        columns={[
          {
            head: 'Task',
            cell: ({ task_id }) => (
              <PageLink to="/tasks/$taskId" params={{ taskId: task_id }}>
                {shortId(task_id)}
              </PageLink>
            ),
          },
          {
            head: 'State',
            state: ({ status, cohort_status: of }) =>
              of ? { as: 'cohort', of } : { as: 'task', of: status },
          },
          {
            head: 'Endpoint',
            cell: ({ endpoint_id }) => (
              <PageLink to="/endpoints/$endpointId" params={{ endpointId: endpoint_id }}>
                {shortId(endpoint_id)}
              </PageLink>
            ),
          },
          { head: 'Caller', cell: ({ surface }) => surface },
          {
            head: 'Tokens in + out',
            align: 'right',
            cell: ({ tokens_in, tokens_out }) =>
              tokens_in === null ? '–' : `${number(tokens_in)} + ${number(tokens_out ?? 0)}`,
          },
          {
            head: 'Took',
            align: 'right',
            cell: ({ inference_time_ms: ms }) => (ms === null ? '–' : `${number(Math.round(ms))} ms`),
          },
          { head: 'Created', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
      />
    </Page>
  )
}

/** Returns the progress of an open task, with its node's message. */
function progressOf({ status_detail: detail }: Task): string {
  if (!detail) return '–'
  const { message, eta_seconds: eta } = detail.metadata
  return [
    `${detail.progress_pct} %`,
    ...(typeof message === 'string'
      ? [message]
      : typeof eta === 'number'
        ? [`about ${seconds(eta)} to go`]
        : []),
  ].join(', ')
}

export function TaskPage() {
  const { taskId } = useParams({ from: '/tasks/$taskId' })
  const path = `${BUILDER}/tasks/${taskId}`
  const { data, error } = useApi<Task>(path, { every: 2_000 })
  const queries = useQueryClient()
  const [problem, setProblem] = useState<Error>()
  const mayCancel = useMay('operator')
  const workflow = useWorkflow(data && data.surface !== 'cohort' ? { kind: 'task', id: taskId } : undefined)
  if (!data) return <Loading error={error} what="task" />
  const hasEnded = data.status === 'succeeded' || data.status === 'failed'
  const cancel = () =>
    client()
      .tasks.cancel(taskId)
      .then(() => queries.invalidateQueries(), setProblem)

  return (
    <Page
      title={`Task ${shortId(data.task_id)}`}
      lead={<State as="task" of={data.status} />}
      actions={
        !hasEnded &&
        mayCancel && (
          <Button variant="default" onClick={() => void cancel()}>
            Cancel
          </Button>
        )
      }
    >
      {problem && <Failure error={problem} what="change" />}
      {data.surface !== 'cohort' && <StateNote as="task" of={data.status} why={data.error} />}
      <Panel title="Details">
        <Facts
          of={{
            Id: <span className="mono">{data.task_id}</span>,
            Caller: data.surface,
            Endpoint: (
              <PageLink to="/endpoints/$endpointId" params={{ endpointId: data.endpoint_id }}>
                {data.endpoint_id}
              </PageLink>
            ),
            Progress: hasEnded ? '–' : progressOf(data),
            'Model was': data.model_state ? <State as="found" of={data.model_state} /> : '–',
            'Inference took':
              data.inference_time_ms === null ? '–' : `${Math.round(data.inference_time_ms)} ms`,
            Created: <Time at={data.created_at} />,
            Completed: <Time at={data.completed_at} />,
            ...workflow,
          }}
        />
      </Panel>
      {data.surface === 'cohort' && <Cohort taskId={taskId} isOpen={!hasEnded} />}
      {data.result && (
        <Panel title="Result">
          <Outputs of={data.result} />
        </Panel>
      )}
    </Page>
  )
}
