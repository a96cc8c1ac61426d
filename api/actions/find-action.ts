import { kindOf } from '../../domain/actions/kind.ts'
import { ApiError } from '../../domain/errors.ts'
import type { ToolKind } from '../../schemas/tool.ts'
import { checkCallable } from '../inference/admission.ts'
import type { Services } from '../services.ts'
import { type OperationAction, operationAction } from './operation-actions.ts'

interface ActionRef {
  readonly slug: string
  readonly kind: ToolKind
}

/** An endpoint's action that this account may call now. */
export interface EndpointAction extends ActionRef {
  readonly operation: undefined
}

type ResolvedAction = EndpointAction | (ActionRef & { readonly operation: OperationAction })

/** Finds an action by its slug; throws a 404, 403 or 409 if this account cannot invoke it now. */
export async function findAction(
  { endpoints }: Pick<Services, 'endpoints'>,
  accountId: string,
  slug: string,
): Promise<ResolvedAction> {
  const operation = operationAction(slug)
  if (operation) return { slug, kind: 'operation', operation }
  const endpoint = await endpoints.find(slug)
  // The lookup also matches ids, but only the name is a slug.
  if (endpoint?.name !== slug) throw actionNotFound(slug)
  return { slug, kind: kindOf(checkCallable(endpoint, accountId)), operation: undefined }
}

export const actionNotFound = (slug: string): ApiError =>
  new ApiError(
    'not_found',
    `there is no action ${slug}; GET /api/builder/v1/actions lists the available actions`,
  )
