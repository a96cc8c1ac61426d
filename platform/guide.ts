import { resolve } from 'node:path'

/** The path at which gateways serve the documentation site; all links in a build begin with it. */
export const GUIDE_PATH = '/docs/guide'

/** The folder that `npm run docs:build` writes and gateways serve. */
export const GUIDE_FOLDER = resolve(import.meta.dirname, '../docs-site/dist')
