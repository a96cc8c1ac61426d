import type { UiSchema } from '@rjsf/utils'
import type { JsonSchema } from '../types.ts'
import { fieldsOf } from './fields.ts'

/** Returns the UI schema of a form without a submit button. */
export const uiOf = (schema: JsonSchema): UiSchema =>
  ({ ...fieldsOf(schema), 'ui:submitButtonOptions': { norender: true } }) as UiSchema
