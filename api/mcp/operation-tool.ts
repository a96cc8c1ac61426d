import type { ToolAnnotations } from '@modelcontextprotocol/server'
import type { Static, TObject, TProperties, TSchema } from 'typebox'
import type { AnyRoute } from '../http/route.ts'
import { jsonCheck, LARGE_BYTES } from '../http/validate.ts'
import { publicSchema } from './json-schema.ts'
import { operate, type OperationInputs } from './operate.ts'
import { failed, structured } from './results.ts'
import type { CallContext, JsonObject, Tool } from './tool.ts'

interface OperationTool<P extends TProperties> {
  readonly name: string
  readonly title: string
  readonly description: string
  /** The operation that the tool calls. */
  readonly operation: AnyRoute
  readonly input: TObject<P>
  /** Defaults to the operation's own response. */
  readonly output?: TSchema
  readonly annotations: ToolAnnotations
  /** Maps a call's arguments to the operation's inputs. */
  readonly inputsOf: (
    args: Static<TObject<P>>,
    context: CallContext,
  ) => OperationInputs | Promise<OperationInputs>
  /** Argument names that differ from the operation's, keyed by the operation's name. */
  readonly argumentNames?: Readonly<Record<string, string>>
  /** Maps the operation's response to the tool's result; defaults to the response itself. */
  readonly present?: (body: never, args: Static<TObject<P>>, context: CallContext) => JsonObject
}

/** Builds a tool from one API operation. */
export function operationTool<P extends TProperties>({
  operation,
  input,
  output = operation.success.schema,
  inputsOf,
  argumentNames,
  present,
  ...shown
}: OperationTool<P>): Tool {
  return {
    ...shown,
    inputSchema: publicSchema(input),
    ...(output && { outputSchema: publicSchema(output) }),
    call: checked(
      input,
      async (args, context) => {
        const body = await operate<JsonObject>(operation, context, await inputsOf(args, context))
        return structured(present ? present(body as never, args, context) : body)
      },
      argumentNames,
    ),
  }
}

/**
 * Wraps a tool's `call` so that it receives only valid arguments and its failures become results. The protocol would
 * otherwise return an error that agents don't see.
 */
export function checked<S extends TSchema>(
  input: S,
  call: (args: Static<S>, context: CallContext) => ReturnType<Tool['call']>,
  names?: Readonly<Record<string, string>>,
): Tool['call'] {
  const check = jsonCheck('body', input)
  return async (args, context) => {
    const { log, rawBody } = context.request
    let valid: Static<S>
    try {
      valid = check(args, rawBody.length > LARGE_BYTES) as Static<S>
    } catch (err) {
      return failed(err, log, { args })
    }
    try {
      return await call(valid, context)
    } catch (err) {
      // Only the operation's errors need renaming; argument errors already use the caller's names.
      return failed(err, log, { args, ...(names && { names }) })
    }
  }
}

export const READS: ToolAnnotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}

/** Annotations for a tool that creates something new on each call. */
export const CREATES: ToolAnnotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
}
