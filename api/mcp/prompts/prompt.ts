import type { GetPromptResult, Prompt as PromptEntry } from '@modelcontextprotocol/server'
import type { CallContext, AccountRequestContext } from '../tool.ts'

/** A message template with which a user starts a conversation. */
export interface Prompt extends PromptEntry {
  readonly get: (args: Readonly<Record<string, string>>, context: CallContext) => GetPromptResult
  /** Returns completions for an argument: the account's objects that it could refer to. */
  readonly complete?: (argument: string, on: AccountRequestContext) => Promise<string[]>
}

/** Returns a prompt of one message. */
export const message = (text: string): GetPromptResult => ({
  messages: [{ role: 'user', content: { type: 'text', text } }],
})
