import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'

/** The console's flame icon (`console/index.html`). */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#d9480f" ' +
  'd="M12 2c1 4 6 6 6 12a6 6 0 0 1-12 0c0-3 2-4 2-7 2 1 3 3 3 4 1-2 1-6 1-9z"/></svg>'

/** Browsers request this icon for every page that does not name its own. */
export const getFavicon = route({
  operationId: 'getFavicon',
  summary: "Get the icon of the gateway's pages",
  method: 'GET',
  path: '/favicon.ico',
  auth: 'none',
  internal: true,
  success: { status: 200, contentType: 'image/svg+xml' },
  handler: () =>
    reply(200, Buffer.from(ICON), {
      'content-type': 'image/svg+xml',
      'cache-control': 'public, max-age=86400',
    }),
})
