import { stopDatabases } from './database.ts'

/** Shared servers live as long as the test process. */
export const mochaHooks = {
  async afterAll() {
    await stopDatabases()
  },
}
