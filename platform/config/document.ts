import { CACHE_HOME, SETTINGS } from '../config.ts'

/** The sections of the page: title, and the setting with which each begins, in the order of `SETTINGS`. */
const SECTIONS: readonly (readonly [title: string, first: keyof typeof SETTINGS])[] = [
  ['Address, folders and logs', 'HEARTH_PORT'],
  ['Command line', 'HEARTH_PROFILE'],
  ['Secrets', 'HEARTH_EVALUATOR_TOKEN'],
  ['Gateway limits', 'HEARTH_RATE_LIMIT'],
  ['Prices, storage and quotas', 'HEARTH_CREDIT_USD'],
  ['Model hub and outbound calls', 'HEARTH_HUB_ENDPOINT'],
  ['Webhooks', 'HEARTH_WEBHOOK_DESTINATIONS'],
  ['Tools and memory', 'HEARTH_TOOL_KINDS'],
  ['Nodes', 'HEARTH_GATEWAY_URL'],
  ['PostgreSQL and the Temporal gate', 'DATABASE_URL'],
  ['Temporal', 'TEMPORAL_ADDRESS'],
  ['S3', 'S3_BUCKET'],
]

const HEAD = `# Settings

Every setting is an environment variable. If a value is invalid, the process refuses to start and names the variable.
For production, start with \`HEARTH_BASE_URL\`, \`HEARTH_OPERATIONS_KEY\`, \`HEARTH_ENCRYPTION_KEYS\`, \`DATABASE_URL\` and \`TEMPORAL_ADDRESS\` ([Deployment](deployment.md)).

\`npm run config:write\` generates this page from \`platform/config.ts\`.
`

/** Returns the tables of settings in Markdown; `docs/configuration.md` must match it. */
export function configurationDocument(): string {
  const names = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]
  const starts = [...SECTIONS.map(([, first]) => names.indexOf(first)), names.length]
  const sections = SECTIONS.map(([title], i) => {
    const rows = names.slice(starts[i], starts[i + 1]).map(row)
    const table = ['| variable | type | default | meaning |', '| --- | --- | --- | --- |', ...rows]
    return `\n## ${title}\n\n${table.join('\n')}\n`
  })
  return [HEAD, ...sections].join('')
}

function row(name: keyof typeof SETTINGS): string {
  const { kind, default: fallback, meaning } = SETTINGS[name]
  const shown =
    fallback === undefined
      ? 'none'
      : fallback === ''
        ? 'empty'
        : `\`${fallback.replace(CACHE_HOME, '~/.cache')}\``
  return `| \`${name}\` | ${kind} | ${shown} | ${meaning} |`
}
