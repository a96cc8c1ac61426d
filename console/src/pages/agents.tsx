import { Anchor, Select, Text } from '@mantine/core'
import { useState } from 'react'
import { BUILDER } from '../api.ts'
import { CodeText, Json } from '../parts/code.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { PageLink } from '../parts/link.tsx'
import { Page, Panel } from '../parts/page.tsx'
import { useApi } from '../use-api.ts'
import { useMe } from '../use-may.ts'

interface Tool {
  name: string
  description: string
  inputSchema: Record<string, unknown>
}

const json = (value: object): string => JSON.stringify(value, null, 2)
const KEY = 'YOUR_API_KEY'
const HEADERS = { Authorization: `Bearer ${KEY}` }

/** The configuration for agents that speak MCP over HTTP, and where to paste it. */
const CLIENTS: Record<string, { where: string; paste: (url: string) => string }> = {
  'Claude Code': {
    where: 'In a shell.',
    paste: (url) =>
      `claude mcp add --transport http hearth "${url}" --header "Authorization: ${HEADERS.Authorization}"`,
  },
  Codex: {
    where: 'In ~/.codex/config.toml, with HEARTH_API_KEY in the environment.',
    paste: (url) => `[mcp_servers.hearth]\nurl = "${url}"\nbearer_token_env_var = "HEARTH_API_KEY"`,
  },
  'VS Code': {
    where: 'In .vscode/mcp.json.',
    paste: (url) => json({ servers: { hearth: { type: 'http', url, headers: HEADERS } } }),
  },
  Cursor: {
    where: 'In ~/.cursor/mcp.json.',
    paste: (url) => json({ mcpServers: { hearth: { url, headers: HEADERS } } }),
  },
}
const [FIRST = ''] = Object.keys(CLIENTS)

export function Agents() {
  return (
    <Page title="Agents" lead="Agents can list, call and train models as tools over MCP.">
      <Configuration />
      <Tools />
    </Page>
  )
}

function Configuration() {
  const [name, setName] = useState(FIRST)
  const base = useMe().data?.base_url ?? window.location.origin
  const client = CLIENTS[name]
  return (
    <Panel
      title="Connect an agent"
      actions={
        <Select
          aria-label="Agent"
          data={Object.keys(CLIENTS)}
          value={name}
          onChange={(chosen) => chosen && setName(chosen)}
          allowDeselect={false}
          w={180}
        />
      }
    >
      <Text size="sm" mb="sm">
        {client?.where} Put a key in place of {KEY};{' '}
        <PageLink to="/account" style={{ textDecoration: 'underline' }}>
          Keys and usage
        </PageLink>{' '}
        creates one with limits. A viewer can read; an operator can also train and call models.
      </Text>
      {client && (
        <CodeText text={client.paste(`${base}/mcp?names=safe`)} label={`configuration of ${name}`} />
      )}
    </Panel>
  )
}

function Tools() {
  const [chosen, setChosen] = useState<string>()
  const { data, error } = useApi<{ tools: Tool[] }>(`${BUILDER}/mcp/manifest`)
  const tool = data?.tools.find(({ name }) => name === chosen)
  return (
    <Panel title="Tools of this account">
      <DataTable
        caption="tools"
        rows={data?.tools}
        error={error}
        idOf={({ name }) => name}
        empty="No endpoint can be called as a tool yet. The built-in tools do not need one."
        columns={[
          {
            head: 'Name',
            cell: ({ name }) => (
              <Anchor component="button" type="button" onClick={() => setChosen(name)} className="mono">
                {name}
              </Anchor>
            ),
          },
          { head: 'What it does', cell: ({ description }) => description },
        ]}
      />
      {tool && <Json of={tool.inputSchema} label={`input of ${tool.name}`} />}
    </Panel>
  )
}
