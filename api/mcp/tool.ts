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

/** A request of an account to `/mcp`. */
export type AccountRequest = AnyRequest & { readonly caller: AccountCaller }

/** A request of an account, with what is needed to serve it. */
export interface RequestOfAccount {
  /** The account's key, with the tools that it may be limited to. */
  readonly caller: AccountCaller
  /** The request as operations get it. A tool that the key may use calls them without the key's limit. */
  readonly request: AccountRequest
  readonly services: Services
  /** The list of tools that its response has. */
  readonly list: RawList
}

/** The call of a tool on behalf of a request. */
export interface CallContext extends RequestOfAccount {
  /** The protocol's side of the request: its progress token, its signal and its notifications. */
  readonly mcp: ServerContext
}

/** A tool that has handed its work over to a task: the client polls it. Only for clients that have declared tasks. */
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
  /** Further facts about the tool, under names of the platform. */
  readonly meta?: JsonObject | undefined
}

interface CallableTool {
  readonly name: string
  /** Throws an `ApiError` for what the agent can do something about. */
  call(args: JsonObject, context: CallContext): Promise<ToolResult>
}

/** A tool as agents see and call it. */
export interface Tool extends CallableTool, ToolDescription {}

/** A tool whose description may be large, and is read when it is listed. */
export interface ReadTool extends CallableTool {
  describe(): Promise<ToolDescription>
}
