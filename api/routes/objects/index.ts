import { getObject } from './get-object.ts'
import { putObject } from './put-object.ts'

/** Where the signed URLs of the local object store lead. */
export const objects = [getObject, putObject]
