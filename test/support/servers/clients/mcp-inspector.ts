import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { ensurePackages } from '../../../../node-runtime/environments/npm-env.ts'
import { readConfig } from '../../../../platform/config.ts'
import { TEST_PACKAGES } from '../../../../scripts/test-tools.ts'
import { requireInstalled } from '../../skip.ts'
import type { McpClient, ToolAnswer } from './mcp-client.ts'

/** For `before`: skips the suite, with the reason, if the Inspector can't be installed. */
export async function requireInspector(this: Mocha.Context): Promise<void> {
  this.timeout(600_000)
  await requireInstalled(this, process.env.HEARTH_TEST_INSPECTOR_MISSING, inspectorPackages)
}

const inspectorPackages = (): Promise<string> =>
  ensurePackages('inspector', {
    cacheDir: readConfig().HEARTH_CACHE_DIR,
    log: () => {},
    locksDir: TEST_PACKAGES,
  })

interface InspectorOutput {
  isError?: boolean
  content: { type: string; text?: string }[]
  structuredContent?: unknown
}

/** Calls tools with the CLI of the MCP Inspector, one process per call. */
export function inspector({ baseUrl, key }: { baseUrl: string; key: string }): Pick<McpClient, 'call'> {
  return {
    async call(name, args = {}) {
      const cli = join(await inspectorPackages(), 'node_modules', '.bin', 'mcp-inspector')
      const named = Object.entries(args).flatMap(([argument, value]) => [
        '--tool-arg',
        `${argument}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
      ])
      const {
        isError = false,
        content,
        structuredContent,
      } = await new Promise<InspectorOutput>((resolve, reject) => {
        const server = [`${baseUrl}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${key}`]
        const call = ['--method', 'tools/call', '--tool-name', name, ...named]
        execFile(process.execPath, [cli, '--cli', ...server, ...call], (_err, out, stderr) => {
          try {
            resolve(JSON.parse(out) as InspectorOutput)
          } catch {
            reject(new Error(`the Inspector printed no result: ${stderr}`))
          }
        })
      })
      return { isError, text: content[0]?.text ?? '', body: structuredContent } satisfies ToolAnswer
    },
  }
}
