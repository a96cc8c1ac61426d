import { getObject } from './get-object.ts'
import { putObject } from './put-object.ts'

/** The targets of the local object store's signed URLs. */
export const objects = [getObject, putObject]
