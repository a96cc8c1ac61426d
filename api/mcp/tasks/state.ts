import type { CallToolResult } from '@modelcontextprotocol/server'

/** A task of the protocol's extension, as `tasks/get` shows it. */
export interface TaskState {
  readonly taskId: string
  readonly status: 'working' | 'completed' | 'failed' | 'cancelled'
  readonly statusMessage?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
  /** The tool's result, once it has ended. */
  readonly result?: CallToolResult
  /** The error, if the tool failed to produce a result. */
  readonly error?: { readonly code: number; readonly message: string }
}
