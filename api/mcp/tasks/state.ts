import type { CallToolResult } from '@modelcontextprotocol/server'

/** A task of the protocol's extension, as `tasks/get` shows it. */
export interface TaskState {
  readonly taskId: string
  readonly status: 'working' | 'completed' | 'failed' | 'cancelled'
  readonly statusMessage?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
  /** The result of the tool, once it has ended. */
  readonly result?: CallToolResult
  /** The fault that kept the tool from having a result. */
  readonly error?: { readonly code: number; readonly message: string }
}
