import { stopDatabases } from './servers/database.ts'

/** Shared servers run as long as the test process. */
export const mochaHooks = {
  async afterAll() {
    await stopDatabases()
  },
}
