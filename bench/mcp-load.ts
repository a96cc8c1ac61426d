import { type McpTarget, sendMcp } from './mcp-messages.ts'

// Sends one message many times over a few connections; the parent process is the server.

const { target, times, connections } = JSON.parse(process.argv[2] ?? '{}') as {
  target: McpTarget
  times: number
  connections: number
}
let left = times
const connection = async (): Promise<void> => {
  while (left-- > 0) await sendMcp(target)
}
await Promise.all(Array.from({ length: connections }, connection))
