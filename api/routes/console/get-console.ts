import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { consolePage } from './page.ts'

/**
 * The depths at which the console has pages: `/console/`, `/console/runs`, `/console/runs/{id}` and one level below.
 */
const DEPTHS = [
  ['getConsole', '/console/'],
  ['getConsoleSection', '/console/{section}'],
  ['getConsoleItem', '/console/{section}/{item}'],
  ['getConsolePart', '/console/{section}/{item}/{part}'],
] as const

/** The console does its own routing, so every page URL gets the same document. */
export const consolePages = DEPTHS.map(([operationId, path]) =>
  route({
    operationId,
    summary: 'The console',
    method: 'GET',
    path,
    auth: 'none',
    internal: true,
    success: { status: 200, contentType: 'text/html' },
    also: { 503: null },
    handler: (_request, services) => consolePage(services),
  }),
)

/** Anyone who opens the URL that `npm start` prints expects a page. */
export const getRoot = route({
  operationId: 'getRoot',
  summary: "Redirect from the gateway's root to the console",
  method: 'GET',
  path: '/',
  auth: 'none',
  internal: true,
  success: { status: 302 },
  handler: () => reply(302, undefined, { location: 'console/' }),
})

export const getConsoleFolder = route({
  operationId: 'getConsoleFolder',
  summary: 'Redirect to the console from its URL without a trailing slash',
  method: 'GET',
  path: '/console',
  auth: 'none',
  internal: true,
  success: { status: 308 },
  handler: () => reply(308, undefined, { location: '/console/' }),
})
