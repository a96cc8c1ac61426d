import { callOperation, type OperationCall } from '../http/call-operation.ts'
import type { AnyRoute } from '../http/route.ts'
import type { AccountRequestContext } from './tool.ts'

/** An operation's inputs, as a client would send them over HTTP. */
export type OperationInputs = Pick<OperationCall, 'params' | 'query' | 'body'>

/** Calls an API operation on behalf of a request to `/mcp`; returns the body of its response. */
export const operate = <T>(
  operation: AnyRoute,
  { request, services }: AccountRequestContext,
  inputs: OperationInputs = {},
): Promise<T> => callOperation(operation, { request, surface: 'mcp', ...inputs }, services) as Promise<T>
