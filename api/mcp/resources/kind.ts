import type {
  BlobResourceContents,
  Resource,
  ResourceTemplateType,
  TextResourceContents,
} from '@modelcontextprotocol/server'
import { isUuid } from '../../../domain/uuid.ts'
import type { AccountRequestContext } from '../tool.ts'

type Contents = TextResourceContents | BlobResourceContents

/** One kind of resource that agents can read from the account. */
export interface ResourceKind {
  readonly template?: ResourceTemplateType
  /** Returns the most recent resources for the list; agents can read others through the template. */
  recent(on: AccountRequestContext): Promise<Resource[]>
  /** Returns completions for the template's variable. */
  complete?(argument: string, on: AccountRequestContext): Promise<string[]>
  /** Returns undefined for a URI of another kind; throws `not_found` if the account doesn't have the resource. */
  read(uri: string, on: AccountRequestContext): Promise<Contents[] | undefined>
}

/** Returns the id in a URI of the form `hearth://runs/{run_id}/log`. */
export function idIn(uri: string, template: string): string | undefined {
  const [before = '', after = ''] = template.split(/\{\w+\}/)
  if (!uri.startsWith(before) || !uri.endsWith(after)) return undefined
  const id = uri.slice(before.length, uri.length - after.length)
  return isUuid(id) ? id : undefined
}
