import { emit as controlActivities } from '../activities/control/events.ts'
import { emit as nodeActivities } from '../activities/node/events.ts'
import { emit as api } from '../api/events.ts'
import { emit as db } from '../db/events.ts'
import { emit as nodeRuntime } from '../node-runtime/events.ts'
import type { LogEvents } from '../platform/events.ts'
import { emit as control } from '../workers/control/events.ts'
import { emit as workers } from '../workers/events.ts'
import { emit as gate } from '../workers/gate/events.ts'
import { emit as node } from '../workers/node/events.ts'
import { emit as workflows } from '../workflows/events.ts'

/** The processes, each with the files that declare its events. */
const PARTS: readonly { title: string; declared: Readonly<Record<string, { events: LogEvents }>> }[] = [
  { title: 'Gateway', declared: { 'api/events.ts': api } },
  {
    title: 'Worker',
    declared: {
      'workers/control/events.ts': control,
      'activities/control/events.ts': controlActivities,
      'workflows/events.ts': workflows,
    },
  },
  { title: 'Gate', declared: { 'workers/gate/events.ts': gate } },
  {
    title: 'Node',
    declared: {
      'workers/node/events.ts': node,
      'node-runtime/events.ts': nodeRuntime,
      'activities/node/events.ts': nodeActivities,
    },
  },
  { title: 'Several processes', declared: { 'workers/events.ts': workers, 'db/events.ts': db } },
]

export const DECLARED = PARTS.flatMap(({ declared }) =>
  Object.entries(declared).map(([file, { events }]) => ({ file, events })),
)

const HEAD = `# Log events

Each line of a process's log is a JSON object that describes one event. Use \`event\` for counts and alerts: its values never change and are never reused.
The wording of a \`msg\` may change.

| field | meaning |
| --- | --- |
| \`event\` | the event's name |
| \`level\` | 10 trace, 20 debug, 30 info, 40 warn, 50 error, 60 fatal |
| \`time\` | milliseconds since 1970 |
| \`msg\` | the message from the table, with each placeholder in braces replaced by that field; if the table has none, the error's message |
| \`request_id\` | the request's id, in lines about an HTTP request |

* In the tables, each field is followed by its type. A field whose type ends in \`?\` may be missing. An \`error\` has \`type\`, \`message\` and \`stack\`.
* \`temporal.log\` forwards log lines from the Temporal SDK, including their fields.
* Output from trainers and model servers goes to the logs of their runs and models, and is not listed here.
* If a worker, gate or node cannot start or must exit, it writes the reason to stderr in plain text.

\`npm run events:write\` generates this page from the declarations.
`

/** Returns the events page as Markdown; docs/events.md must be identical to it. */
export function eventsDocument(): string {
  const sections = PARTS.map(({ title, declared }) => {
    const rows = Object.values(declared).flatMap(({ events }) => Object.entries(events).map(row))
    const files = Object.keys(declared).map((file) => `\`${file}\``)
    const table = ['| event | level | message | fields |', '| --- | --- | --- | --- |', ...rows]
    return `\n## ${title}\n\nDeclared in ${files.join(', ')}.\n\n${table.join('\n')}\n`
  })
  return [HEAD, ...sections].join('')
}

function row([name, { level, sentence = '', fields }]: [string, LogEvents[string]]): string {
  const typed = Object.entries(fields).map(([field, type]) => `\`${field}\` ${type}`)
  return `| \`${name}\` | ${level} | ${sentence} | ${typed.join(', ')} |`
}
