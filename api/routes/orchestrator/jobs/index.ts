import { claimJob } from './claim-job.ts'

export const jobs = [claimJob]
