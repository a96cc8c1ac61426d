import type {
  BlobResourceContents,
  Resource,
  ResourceTemplateType,
  TextResourceContents,
} from '@modelcontextprotocol/server'
import { isUuid } from '../../../domain/uuid.ts'
import type { RequestOfAccount } from '../tool.ts'

type Contents = TextResourceContents | BlobResourceContents

/** One kind of resource: something of the account that agents read. */
export interface ResourceKind {
  readonly template?: ResourceTemplateType
  /** Returns the most recent ones, which are listed; others are read by the template. */
  recent(on: RequestOfAccount): Promise<Resource[]>
  /** Returns what the account has that the variable of the template could be. */
  complete?(argument: string, on: RequestOfAccount): Promise<string[]>
  /** Returns nothing for an address of another kind; throws `not_found` for one that the account has not. */
  read(uri: string, on: RequestOfAccount): Promise<Contents[] | undefined>
}

/** Returns the id within an address of the form `hearth://runs/{run_id}/log`. */
export function idIn(uri: string, template: string): string | undefined {
  const [before = '', after = ''] = template.split(/\{\w+\}/)
  if (!uri.startsWith(before) || !uri.endsWith(after)) return undefined
  const id = uri.slice(before.length, uri.length - after.length)
  return isUuid(id) ? id : undefined
}
