import Type from 'typebox'
import { GUIDE_PATH } from '../../../platform/guide.ts'
import { type AnyRoute, route } from '../../http/route.ts'
import { acceptsGzip } from '../../http/static-files.ts'
import { guideReply } from './files.ts'

/** The depths at which the site has files: `/docs/guide`, `.../models`, `.../pagefind/pagefind.js` and one level below. */
const DEPTHS = [
  ['getGuide', ''],
  ['getGuidePart', '/{part}'],
  ['getGuidePage', '/{part}/{page}'],
  ['getGuideFile', '/{part}/{page}/{file}'],
] as const

/** The documentation site (`docs-site/`), which exists once `npm run docs:build` has run. It is as public as `/docs`. */
export const guideRoutes = (folder: string): readonly AnyRoute[] =>
  DEPTHS.flatMap(([operationId, path]) => [
    guideRoute(folder, operationId, path, false),
    guideRoute(folder, `${operationId}Folder`, `${path}/`, true),
  ])

const guideRoute = (folder: string, operationId: string, path: string, isFolder: boolean): AnyRoute =>
  route({
    operationId,
    summary: 'The guide',
    method: 'GET',
    path: `${GUIDE_PATH}${path}`,
    auth: 'none',
    internal: true,
    etag: true,
    params: Type.Object({
      part: Type.Optional(Type.String()),
      page: Type.Optional(Type.String()),
      file: Type.Optional(Type.String()),
    }),
    headers: Type.Object({ 'accept-encoding': Type.Optional(Type.String()) }),
    success: { status: 200, contentType: 'text/html' },
    also: { 308: null, 404: null },
    handler({ params: { part, page, file }, headers }) {
      const names = [part, page, file].filter((name) => name !== undefined)
      return guideReply(folder, { names, isFolder, acceptsGzip: acceptsGzip(headers) })
    },
  })
