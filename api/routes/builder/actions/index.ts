import { getAction } from './get-action.ts'
import { getInvocation } from './get-invocation.ts'
import { invokeAction } from './invoke-action.ts'
import { listActions } from './list-actions.ts'

export const actions = [listActions, getAction, invokeAction, getInvocation]
