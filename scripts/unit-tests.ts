import { globSync, readFileSync } from 'node:fs'
import { run } from './run-command.ts'

/** Matches tests that start servers, need external programs, or start whole platforms. */
const SERVERS = /support\/(?:servers|builders)\/|HEARTH_TEST_|[/\\](?:compose|e2e|faults|upgrade)[/\\]/

// `npm run test:unit`: runs the tests that need only this checkout and its packages.
const files = globSync('test/**/*.test.ts').filter((file) => !SERVERS.test(file + readFileSync(file, 'utf8')))
process.exitCode = (await run(['mocha', '--reporter', 'dot', ...files, ...process.argv.slice(2)])) ? 0 : 1
