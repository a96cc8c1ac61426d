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

const HEAD = `# Events of the log

Each line of a process's log is a JSON object and an event. \`event\` is its name, which does not change and is never used for
something else: count and alarm by it, as a \`msg\` may get better words. \`level\` is a number (10 trace, 20 debug, 30 info,
40 warn, 50 error, 60 fatal), \`time\` is in milliseconds since 1970, and \`msg\` is the sentence. Words in braces stand for a
text that comes with each line; where there is no sentence, the \`msg\` is that of the error, if any.

Below, a field is followed by its type; one with a \`?\` may be missing. An \`error\` has \`type\`, \`message\` and \`stack\`. Lines
about an HTTP request have its \`request_id\` as well, and \`temporal.log\`, which passes on what Temporal's SDK logs, has
further fields of the SDK. What trainers and model servers print belongs to their runs, and is no event; a worker, gate or
node that cannot start, or has to end, says why in plain words on stderr.

\`npm run events:write\` writes this page from the declarations.
`

/** Returns the page of events as Markdown; docs/events.md must equal it. */
export function eventsDocument(): string {
  const sections = PARTS.map(({ title, declared }) => {
    const rows = Object.values(declared).flatMap(({ events }) => Object.entries(events).map(row))
    const files = Object.keys(declared).map((file) => `\`${file}\``)
    const table = ['| event | level | sentence | fields |', '| --- | --- | --- | --- |', ...rows]
    return `\n## ${title}\n\nDeclared in ${files.join(', ')}.\n\n${table.join('\n')}\n`
  })
  return [HEAD, ...sections].join('')
}

function row([name, { level, sentence = '', fields }]: [string, LogEvents[string]]): string {
  const typed = Object.entries(fields).map(([field, type]) => `\`${field}\` ${type}`)
  return `| \`${name}\` | ${level} | ${sentence} | ${typed.join(', ')} |`
}
