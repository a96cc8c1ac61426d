import { type Schema, Validator } from '@cfworker/json-schema'
import {
  createErrorHandler,
  type ErrorSchema,
  type RJSFSchema,
  type RJSFValidationError,
  toErrorSchema,
  unwrapErrorHandler,
  validationDataMerge,
  type ValidatorType,
} from '@rjsf/utils'
import { faultOf } from './faults.ts'

/** Validates forms without compiling schemas to code, which the page's content security policy forbids. */
const validator: ValidatorType = {
  validateFormData(formData, schema, customValidate) {
    const errors = faultsOf(formData, schema)
    const found = { errors, errorSchema: toErrorSchema(errors) as ErrorSchema }
    if (!customValidate) return found
    const customErrors = unwrapErrorHandler(customValidate(formData, createErrorHandler(formData), undefined))
    return validationDataMerge(found, customErrors)
  },
  rawValidation: (schema, formData) => ({ errors: faultsOf(formData, schema) as never }),
  isValid: (schema, formData, root) =>
    new Validator({ ...schema, definitions: root.definitions ?? {} } as Schema, '2020-12').validate(
      withoutGaps(formData),
    ).valid,
}

function faultsOf(formData: unknown, schema: RJSFSchema): RJSFValidationError[] {
  const { errors } = new Validator(schema as Schema, '2020-12', false).validate(withoutGaps(formData))
  return errors.filter(({ keyword }) => keyword !== 'properties' && keyword !== 'items').map(faultOf)
}

/** Removes members without a value, which cleared fields leave: the validator throws on them. */
const withoutGaps = (formData: unknown): unknown => JSON.parse(JSON.stringify(formData ?? null))

export default validator
