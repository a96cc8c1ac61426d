import type { Family } from '../../http/family.ts'
import type { AnyRoute } from '../../http/route.ts'
import { getDocsFile } from './get-docs-file.ts'
import { getDocsFolder } from './get-docs-folder.ts'
import { getDocs } from './get-docs.ts'
import { getFavicon } from './get-favicon.ts'
import { getOpenApiOf } from './get-open-api.ts'

/** `/openapi.json` and the page that shows it. */
export const docsRoutes = (families: readonly Family[]): readonly AnyRoute[] => [
  getOpenApiOf(families),
  getDocs,
  getDocsFolder,
  getDocsFile,
  getFavicon,
]
