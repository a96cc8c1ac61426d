import type {
  CallToolResult,
  InputRequiredResult,
  ServerContext,
  ToolAnnotations,
} from '@modelcontextprotocol/server'
import type { AccountCaller } from '../http/caller.ts'
import type { AnyRequest } from '../http/route.ts'
import type { Services } from '../services.ts'
import type { RawList } from './raw-list.ts'
import type { TaskState } from './tasks/state.ts'

export type JsonObject = Record<string, unknown>

/** An account's request to `/mcp`. */
export type AccountRequest = AnyRequest & { readonly caller: AccountCaller }

/** An account's request, with everything needed to serve it. */
export interface AccountRequestContext {
  /** The account's key, including its limit to tools, if any. */
  readonly caller: AccountCaller
  /** The request that operations get. A tool that the key may use calls operations without the key's limit. */
  readonly request: AccountRequest
  readonly services: Services
  /** The tool list of the response. */
  readonly list: RawList
}

/** A tool call on behalf of a request. */
export interface CallContext extends AccountRequestContext {
  /** The protocol's side of the request: progress token, signal and notifications. */
  readonly mcp: ServerContext
}

/** Returned by a tool whose work continues as a task that the client polls. Only for clients that declared tasks. */
export class StartedTask {
  readonly state: TaskState

  constructor(state: TaskState) {
    this.state = state
  }
}

export type ToolResult = CallToolResult | InputRequiredResult | StartedTask

/** The part of a tool that agents see. */
export interface ToolDescription {
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema?: JsonObject | undefined
  readonly annotations: ToolAnnotations
  /** Additional facts about the tool, under the platform's names. */
  readonly meta?: JsonObject | undefined
}

interface CallableTool {
  readonly name: string
  /** Throws an `ApiError` for failures that the agent can act on. */
  call(args: JsonObject, context: CallContext): Promise<ToolResult>
}

/** A tool as agents see and call it. */
export interface Tool extends CallableTool, ToolDescription {}

/** A tool whose description may be large and is only read for listings. */
export interface ReadTool extends CallableTool {
  describe(): Promise<ToolDescription>
}
