import { fileURLToPath } from 'node:url'

/** The values for the configuration of a client. */
export interface ClientSetup {
  /** The URL of the MCP server, with tool names that every client accepts. */
  url: string
  baseUrl: string
  key: string
}

const COMMAND = fileURLToPath(new URL('../scripts/hearth.mjs', import.meta.url))

const json = (value: object): string => JSON.stringify(value, null, 2)

/** Known clients: the configuration file and its content. */
const CLIENTS: Readonly<
  Record<string, { name: string; place: string; paste: (setup: ClientSetup) => string }>
> = {
  'claude-desktop': {
    name: 'Claude Desktop',
    place: 'Settings, Developer, Edit Config (claude_desktop_config.json)',
    paste: ({ baseUrl, key }) =>
      json({
        mcpServers: {
          hearth: {
            command: process.execPath,
            args: [COMMAND, 'mcp'],
            env: { HEARTH_BASE_URL: baseUrl, HEARTH_API_KEY: key },
          },
        },
      }),
  },
  'claude-code': {
    name: 'Claude Code',
    place: 'a shell',
    paste: ({ url, key }) =>
      `claude mcp add --transport http hearth "${url}" --header "Authorization: Bearer ${key}"`,
  },
  codex: {
    name: 'Codex',
    place: '~/.codex/config.toml, with HEARTH_API_KEY in the environment',
    paste: ({ url }) => `[mcp_servers.hearth]\nurl = "${url}"\nbearer_token_env_var = "HEARTH_API_KEY"`,
  },
  vscode: {
    name: 'VS Code',
    place: '.vscode/mcp.json',
    paste: ({ url, key }) =>
      json({ servers: { hearth: { type: 'http', url, headers: { Authorization: `Bearer ${key}` } } } }),
  },
  cursor: {
    name: 'Cursor',
    place: '~/.cursor/mcp.json',
    paste: ({ url, key }) =>
      json({ mcpServers: { hearth: { url, headers: { Authorization: `Bearer ${key}` } } } }),
  },
}

export const CLIENT_NAMES: readonly string[] = Object.keys(CLIENTS)

/** Returns the configuration for a client, or for all known clients. */
export function configurationFor(setup: ClientSetup, client?: string): string {
  const chosen = Object.entries(CLIENTS).filter(([id]) => client === undefined || id === client)
  return chosen
    .map(([, { name, place, paste }]) =>
      client === undefined ? `# ${name}: ${place}\n\n${paste(setup)}` : paste(setup),
    )
    .join('\n\n')
}
